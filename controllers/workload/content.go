package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// Content is what a server's pods are to run, as a run config without its mark:
// the caller compares its ContentHash with that of status.workload and claims a
// generation where they differ.
//
// It depends on what the pods depend on and on nothing else. The Rendering in
// it covers the runner's image, the proxy's resources and overlay, and what a
// new version of this package does differently.
//
// The problems are all that keep the spec from being rendered, sorted by field.
// With one, the run config must not be claimed, and the content that stands
// keeps running. Content itself cannot fail.
func Content(server *v1alpha1.MCPServer, opts Options) (runconfig.RunConfig, []Problem) {
	run := runspec.For(server)
	problems := unrenderable("spec", &server.Spec)
	if user := proxyService(server); user != nil {
		problems = append(problems, keys("spec.proxy.service.labels", user.Labels, true)...)
		problems = append(problems, keys("spec.proxy.service.annotations", user.Annotations, false)...)
	}
	_, backend := backendPod(run)
	template, proxy := proxyPod(server, run, opts)
	rendering, err := renderingOf(template)
	if err != nil {
		problems = append(problems, Problem{"spec.proxy", err.Error()})
	}
	run.Rendering = rendering
	problems = append(problems, tooLong(run)...)
	return run, sorted(append(append(problems, backend...), proxy...))
}

// configLimit leaves room for the mark in the 1 MiB that a ConfigMap may hold.
const configLimit = 1<<20 - 1<<10

// tooLong finds content that no ConfigMap holds.
func tooLong(run runconfig.RunConfig) []Problem {
	data, err := run.Encode()
	if err != nil || len(data) <= configLimit {
		return nil // an overlay that is not JSON is found where it is read
	}
	return []Problem{{"spec", "is too long for the ConfigMap in which the runner gets it: keep command, args, env and podTemplate " +
		"below 1 MiB together, and put long texts into ConfigMaps of your own"}}
}

// renderingOf names a pod template: lower-case hexadecimal SHA-256. The run
// config that the template mounts has no mark yet, so that the hash of the
// content does not depend on itself.
func renderingOf(template *corev1ac.PodTemplateSpecApplyConfiguration) (string, error) {
	data, err := json.Marshal(template)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
