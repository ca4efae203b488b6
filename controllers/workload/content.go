package workload

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/authz"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// Rendered is the content of an owner's pods for a release, without its generation. It is immutable,
// so it may be kept while the owner's uid and metadata.generation stay.
type Rendered struct {
	// Content is what the pods run, as a run config without its revision. It contains all that the pods depend on, and
	// nothing else. Its Rendering covers the runner's image, the proxy's resources and overlays, and changes of this
	// package.
	Content runconfig.RunConfig
	// Hash is Content's. The caller claims a generation if it differs from that of status.workload. It is empty if
	// Content cannot be encoded, which is then a problem.
	Hash string
	// OwnHash is the hash without shared configurations; empty for a server that refers to none.
	OwnHash string
	// Problems keep the spec from being rendered, sorted by field. Content with a problem must not be claimed, and the
	// running content stays.
	Problems podtemplate.Problems
	// Unmatched are the statements of spec.authzConfig that match no call.
	Unmatched []string
	// Reason is that of a condition, if only references are wrong.
	Reason string
	// Strategy is how new content of a backend takes the place of earlier content, empty without a backend.
	Strategy v1alpha1.RolloutStrategy

	owner    Owner
	proxy    *corev1ac.PodTemplateSpecApplyConfiguration
	replicas int32
	// short: the pod template carries the run config.
	short bool
}

// Input is what content depends on beside the release.
type Input struct {
	Object  kinds.Object
	Configs frame.Set
	// Contents are those as which the backend's is rendered where it means the same.
	Contents Contents
}

// Render renders an input. It cannot fail: errors in the spec are problems.
func Render(in Input, release podtemplate.Release) Rendered { return released.render(in, release) }

func (r renderings) render(in Input, release podtemplate.Release) Rendered {
	object := in.Object
	owner, spec := OwnerWith(object, release.Objects), object.GetProxySpec()
	configs, replicas := registry.Bind(object, in.Configs), ProxyReplicas(object, release.ProxyReplicas)
	if problem := tooLarge(object); problem != nil {
		return Rendered{
			Content: onlyChecks(object, configs), Problems: podtemplate.Problems{*problem}, owner: owner, replicas: replicas,
		}
	}
	run, problems := runspec.For(object), check(object)
	var strategy v1alpha1.RolloutStrategy
	if server, is := object.(*v1alpha1.MCPServer); is {
		template, wrong := r.renderBackend(&run, in.Contents, release)
		problems = append(problems, wrong...)
		strategy, wrong = strategyOf(server.Spec.Rollout, template, &run.Backend)
		problems = append(problems, wrong...)
	}
	refused, reason := checks(&run, object, configs)
	run.Proxy.SessionSecret = sessionSecret(object)
	unmatched, wrong := policies(spec.AuthzConfig)
	problems = append(problems, wrong...)
	rendered := RenderProxy(owner, spec, run, release)
	rendered.Unmatched, rendered.Strategy = unmatched, strategy
	if problems = append(problems, rendered.Problems...); len(problems) == 0 {
		rendered.Reason = reason
	}
	rendered.Problems = podtemplate.Sorted(append(problems, refused...))
	rendered.replicas = replicas
	rendered.OwnHash = ownHash(object, rendered.Content, configs, release)
	return rendered
}

// check finds problems of a spec that concern neither proxy nor backend.
func check(object kinds.Object) []podtemplate.Problem {
	applied := specOf(object)
	var problems []podtemplate.Problem
	if server, ok := object.(*v1alpha1.MCPServer); ok {
		spec := server.Spec
		spec.Network = nil // in which an empty selector is written in other words
		applied, problems = &spec, CheckNetwork("spec.network", server.Spec.Network)
	}
	return slices.Concat(podtemplate.Check("spec", applied), problems, podtemplate.UnknownValues("spec", specOf(object)))
}

func specOf(object kinds.Object) any {
	switch o := object.(type) {
	case *v1alpha1.MCPServer:
		return &o.Spec
	case *v1alpha1.MCPRemoteProxy:
		return &o.Spec
	}
	return nil
}

// RenderProxy renders the proxy in front of run, with one replica. The caller checks everything in the owner's spec
// except spec.proxy and spec.restartedAt.
func RenderProxy(
	owner Owner, spec *v1alpha1.ProxyWorkloadSpec, run runconfig.RunConfig, release podtemplate.Release,
) Rendered {
	rendered := Rendered{Content: run, owner: owner, replicas: 1}
	var problems []podtemplate.Problem
	if user := cmp.Or(spec.Proxy, &v1alpha1.ProxySpec{}).Service; user != nil {
		problems = append(problems, podtemplate.Keys("spec.proxy.service.labels", user.Labels, true)...)
		problems = append(problems, podtemplate.Keys("spec.proxy.service.annotations", user.Annotations, false)...)
	}
	// The limit is in the hash: with another one, other pod templates carry their run config.
	names := podtemplate.Names{
		Labels: Labels(owner.Key(), ComponentProxy), ServiceAccount: RunnerName(owner.Key()),
		RunConfig: RunConfigName(owner.Key(), revision.Revision{Hash: strconv.Itoa(shortLimit)}),
	}
	proxy, wrong := podtemplate.Proxy(names, spec, run, release)
	problems = append(problems, wrong...)
	var err error
	if rendered.Content.Rendering.Proxy, err = hashOf(proxy); err != nil {
		problems = append(problems, podtemplate.Problem{Field: "spec.proxy", Message: err.Error()})
	}
	rendered.proxy = proxy
	rendered.Hash, rendered.short, wrong = contentHash(rendered.Content)
	rendered.Problems = podtemplate.Sorted(append(problems, wrong...))
	return rendered
}

// Claimed is the content under a workload generation.
func (r Rendered) Claimed(generation int64) runconfig.RunConfig {
	run := r.Content
	run.Workload = runconfig.Workload{Generation: generation, Hash: r.Hash}
	return run
}

// policies returns policies that match no call, and unreadable ones, as written.
func policies(written *v1alpha1.AuthzConfig) (unmatched []string, unreadable []podtemplate.Problem) {
	if written == nil {
		return nil, nil
	}
	unmatched, err := authz.Unmatched(written)
	if err != nil {
		return nil, []podtemplate.Problem{{Field: "spec.authzConfig", Message: err.Error()}}
	}
	return unmatched, nil
}

// configLimit leaves room for the revision in the 1 MiB of a ConfigMap.
const configLimit = 1<<20 - 1<<10

// shortLimit bounds a run config in a pod template, in bytes. Each pod is in the memory of kubelet, scheduler and
// controllers, and a ConfigMap is not.
const shortLimit = 16 << 10

// contentHash is the hash of a run config, and whether a pod template can hold it.
func contentHash(run runconfig.RunConfig) (hash string, short bool, problems []podtemplate.Problem) {
	data, err := run.Encode()
	if err != nil {
		// whoever reads it reports this first, and better
		return "", false, []podtemplate.Problem{{Field: "spec.podTemplate", Message: err.Error()}}
	}
	if len(data) > configLimit {
		return "", false, []podtemplate.Problem{
			{Field: "spec", Message: "is too long for the ConfigMap in which the runner gets it: keep command, args, env and " +
				"podTemplate " +
				"below 1 MiB together, and put long texts into ConfigMaps of your own"},
		}
	}
	return runconfig.HashOf(data), len(data) <= shortLimit, nil
}

// hashOf is the hash of a pod template. The proxy's mounts a run config without a revision yet, so that the hash of
// the content does not depend on itself.
func hashOf(template *corev1ac.PodTemplateSpecApplyConfiguration) (string, error) {
	data, err := json.Marshal(template)
	if err != nil {
		return "", err
	}
	return runconfig.HashOf(data), nil
}
