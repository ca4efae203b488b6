package workload

import (
	"fmt"
	"maps"
	"slices"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// renderings are the changes that releases have made to the pod template of a backend, the first one first. Content
// says with how many of them it is rendered (runconfig.Backend.Rendering). So the same pods come of it in each later
// release, whoever renders it: the operator, a runner, or somebody who reads it in history. An entry stays.
type renderings []func(template *corev1ac.PodTemplateSpecApplyConfiguration, run runconfig.Backend)

// released are those of this release.
var released = renderings{scratch, closed}

// template is the pod template of content, merged with its overlay, or without the overlay if there are problems.
func (r renderings) template(run runconfig.Backend, labels map[string]string) (
	*corev1ac.PodTemplateSpecApplyConfiguration, []podtemplate.Problem,
) {
	template, problems := podtemplate.Backend(run, labels)
	if run.Rendering < 0 || int(run.Rendering) > len(r) {
		message := fmt.Sprintf("is %d, and this release knows %d: use the release that wrote it, or a later one",
			run.Rendering, len(r))
		problems = append(problems, podtemplate.Problem{Field: "backend.rendering", Message: message})
	}
	if len(problems) > 0 {
		return template, problems
	}
	for _, change := range r[:run.Rendering] {
		change(template, run)
	}
	return template, nil
}

// hash renders the backend's pod template, and stores its hash.
func (r renderings) hash(run *runconfig.RunConfig) (
	template *corev1ac.PodTemplateSpecApplyConfiguration, problems []podtemplate.Problem,
) {
	template, problems = r.template(run.Backend, Labels(run.Server.Name, ComponentBackend))
	var err error
	if run.Rendering.Backend, err = hashOf(template); err != nil {
		problems = append(problems, podtemplate.Problem{Field: "spec", Message: err.Error()})
	}
	return template, problems
}

// renderBackend renders what is asked for as one of the contents, where it means the same: with the image of its
// bridge, and with as many changes. So a release replaces no pods. What is new is rendered as the release has it.
func (r renderings) renderBackend(
	run *runconfig.RunConfig, contents Contents, release podtemplate.Release,
) (*corev1ac.PodTemplateSpecApplyConfiguration, []podtemplate.Problem) {
	images := []string{""}
	if bridge := run.Backend.Bridge; bridge != nil {
		bridge.PullSecrets = slices.Compact(slices.Sorted(slices.Values(release.RunnerPullSecrets)))
		images = append([]string{release.RunnerImage}, contents.Bridges...)
	}
	for _, image := range images {
		template, known, problems := r.renderAs(run, image, contents.Hashes)
		if known || len(problems) > 0 {
			return template, problems
		}
	}
	template, _, problems := r.renderAs(run, images[0], nil)
	return template, problems
}

// renderAs renders with an image of the bridge what one of the hashes names, which is known then, else with all
// changes. Where fewer changes come to the same, the content says the fewest: another number would be other content.
func (r renderings) renderAs(run *runconfig.RunConfig, image string, hashes []string) (
	template *corev1ac.PodTemplateSpecApplyConfiguration, known bool, problems []podtemplate.Problem,
) {
	templates := make([]*corev1ac.PodTemplateSpecApplyConfiguration, len(r)+1)
	rendered := make([]string, len(r)+1)
	for number := range rendered {
		setRendering(run, number, image)
		if templates[number], problems = r.hash(run); len(problems) > 0 {
			return templates[number], false, problems
		}
		rendered[number] = run.Rendering.Backend
	}
	hash := rendered[len(r)]
	for _, each := range slices.Backward(rendered) {
		if known = slices.Contains(hashes, each); known {
			hash = each
			break
		}
	}
	number := slices.Index(rendered, hash)
	setRendering(run, number, image)
	run.Rendering.Backend = hash
	return templates[number], known, nil
}

// setRendering says with how many changes content is rendered, and of which image its bridge is, where it has one.
func setRendering(run *runconfig.RunConfig, number int, bridge string) {
	run.Backend.Rendering = int32(number)
	if run.Backend.Bridge != nil {
		run.Backend.Bridge.Image = bridge
	}
}

// Contents are those of a backend that an earlier release may have rendered.
type Contents struct {
	// Hashes name them, sorted. They are of the status, which only the operator writes.
	Hashes []string
	// Bridges are the images that their bridges may have, that of the claim first. The hash tells whose an image is.
	Bridges []string
}

// ContentsOf are the contents that the status of an object names.
func ContentsOf(object kinds.Object) (contents Contents) {
	if claim := object.GetProxyStatus().Workload; claim != nil {
		contents.Hashes = append(contents.Hashes, claim.BackendHash)
		others := slices.Collect(maps.Values(claim.BridgeImages))
		contents.Bridges = append(sorted(claim.BridgeImage), sorted(others...)...)
	}
	if server, is := object.(*v1alpha1.MCPServer); is {
		status := server.Status
		if status.Active != nil {
			contents.Hashes = append(contents.Hashes, status.Active.Hash)
		}
		if status.Rollout != nil {
			contents.Hashes = append(contents.Hashes, status.Rollout.Target.Hash)
			if status.Rollout.From != nil {
				contents.Hashes = append(contents.Hashes, status.Rollout.From.Hash)
			}
		}
		if status.LastRollout != nil {
			contents.Hashes = append(contents.Hashes, status.LastRollout.Hash)
		}
	}
	contents.Hashes = sorted(contents.Hashes...)
	return contents
}

// sorted are the values that are not empty, each once.
func sorted(values ...string) []string {
	return slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(values))),
		func(value string) bool { return value == "" })
}
