package workload

import (
	"cmp"
	"encoding/json"
	"fmt"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// Rendered is all that an owner and the operator's options say about its pods,
// but for the number that it gets. Its methods leave it as it is, so it may be
// kept for as long as the owner's uid and metadata.generation stay.
type Rendered struct {
	// Content is what the pods are to run, as a run config without its revision. It
	// depends on what the pods depend on and on nothing else. The Rendering in
	// it covers the runner's image, the proxy's resources and overlay, and what
	// a new version of this package does differently.
	Content runconfig.RunConfig
	// Hash is Content's. The caller compares it with that of status.workload and
	// claims a generation where they differ. It is empty where Content cannot be
	// encoded, which is a problem then.
	Hash string
	// Problems are all that keep the spec from being rendered, sorted by field.
	// With one, Content must not be claimed, and the content that stands keeps
	// running.
	Problems podtemplate.Problems

	owner    Owner
	proxy    *corev1ac.PodTemplateSpecApplyConfiguration
	replicas int32
}

// FieldLogin is the field of a reference to an MCPOIDCConfig.
const FieldLogin = "spec.oidcConfigRef"

// Render cannot fail: what is wrong is a problem.
func Render(server *v1alpha1.MCPServer, opts podtemplate.Options) Rendered {
	run := runspec.For(server, URL(OwnerOf(server), server.Spec.Proxy, server.Spec.Path), opts.Login)
	problems := podtemplate.Check("spec", &server.Spec)
	switch ref := server.Spec.OIDCConfigRef; {
	case ref == nil:
	case opts.Login == nil:
		problems = append(problems, podtemplate.Problem{Field: FieldLogin, Message: fmt.Sprintf(
			"MCPOIDCConfig %q does not exist in this namespace: create it, or remove the reference", ref.Name)})
	case opts.Login.Spec.Kubernetes != nil && len(ref.Scopes) > 0:
		problems = append(problems, podtemplate.Problem{Field: FieldLogin + ".scopes", Message: "tokens of service accounts have no scopes, so that no call would pass: remove scopes"})
	}
	backend, wrong := podtemplate.Backend(run.Backend, Labels(run.Server.Name, ComponentBackend))
	problems = append(problems, wrong...)
	var err error
	if run.Rendering.Backend, err = hashOf(backend); err != nil {
		problems = append(problems, podtemplate.Problem{Field: "spec", Message: err.Error()})
	}
	problems = append(problems, unreadable(run)...)
	rendered := RenderProxy(OwnerOf(server), server.Spec.Proxy, run, opts)
	rendered.Problems = podtemplate.Sorted(append(problems, rendered.Problems...))
	rendered.replicas = ProxyReplicas(server)
	return rendered
}

// RenderProxy renders the proxy in front of run, with one replica. spec is the
// owner's spec.proxy. What else the owner's spec says, the caller checks.
func RenderProxy(owner Owner, spec *v1alpha1.ProxySpec, run runconfig.RunConfig, opts podtemplate.Options) Rendered {
	spec = cmp.Or(spec, &v1alpha1.ProxySpec{})
	rendered := Rendered{Content: run, owner: owner, replicas: 1}
	var problems []podtemplate.Problem
	if user := spec.Service; user != nil {
		problems = append(problems, podtemplate.Keys("spec.proxy.service.labels", user.Labels, true)...)
		problems = append(problems, podtemplate.Keys("spec.proxy.service.annotations", user.Annotations, false)...)
	}
	proxy, wrong := podtemplate.Proxy(podtemplate.Names{
		Labels: Labels(owner.Key(), ComponentProxy), ServiceAccount: RunnerName(owner.Key()), RunConfig: RunConfigName(owner.Key(), revision.Revision{}),
	}, spec, run.Proxy, opts)
	problems = append(problems, wrong...)
	var err error
	if rendered.Content.Rendering.Proxy, err = hashOf(proxy); err != nil {
		problems = append(problems, podtemplate.Problem{Field: "spec.proxy", Message: err.Error()})
	}
	rendered.proxy = proxy
	rendered.Hash, wrong = contentHash(rendered.Content)
	rendered.Problems = podtemplate.Sorted(append(problems, wrong...))
	return rendered
}

// Claimed is the content under a workload generation.
func (r Rendered) Claimed(generation int64) runconfig.RunConfig {
	run := r.Content
	run.Workload = runconfig.Workload{Generation: generation, Hash: r.Hash}
	return run
}

// unreadable finds policies that no runner could read.
func unreadable(run runconfig.RunConfig) []podtemplate.Problem {
	if run.Proxy.Authorization == nil {
		return nil
	}
	if _, err := runspec.Policies(*run.Proxy.Authorization); err != nil {
		return []podtemplate.Problem{{Field: "spec.authzConfig", Message: err.Error()}}
	}
	return nil
}

// configLimit leaves room for the revision in the 1 MiB that a ConfigMap may hold.
const configLimit = 1<<20 - 1<<10

// contentHash is that of a run config that a ConfigMap holds.
func contentHash(run runconfig.RunConfig) (string, []podtemplate.Problem) {
	data, err := run.Encode()
	if err != nil {
		return "", []podtemplate.Problem{{Field: "spec.podTemplate", Message: err.Error()}} // where it is read, this is said better, and first
	}
	if len(data) > configLimit {
		return "", []podtemplate.Problem{{Field: "spec", Message: "is too long for the ConfigMap in which the runner gets it: keep command, args, env and podTemplate " +
			"below 1 MiB together, and put long texts into ConfigMaps of your own"}}
	}
	return runconfig.HashOf(data), nil
}

// hashOf names a pod template. That of the proxy mounts a run config without a
// revision yet, so that the hash of the content does not depend on itself.
func hashOf(template *corev1ac.PodTemplateSpecApplyConfiguration) (string, error) {
	data, err := json.Marshal(template)
	if err != nil {
		return "", err
	}
	return runconfig.HashOf(data), nil
}
