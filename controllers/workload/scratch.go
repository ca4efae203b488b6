package workload

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// scratch gives a server a place to write where its image may have none: a volume that is bounded and ends with the
// pod. The bridge looks whether its user can write to HOME and TMPDIR (cmd/runner/internal/stdio). Nobody of ours is in
// the container of any other server: there a root file system that is read-only says it of the temporary folder. HOME
// may hold what the image's program reads (docs/adr/0091-a-place-to-write.md).
func scratch(template *corev1ac.PodTemplateSpecApplyConfiguration, run runconfig.Backend) {
	container := &template.Spec.Containers[slices.IndexFunc(template.Spec.Containers, isServer)]
	if takesScratch(template.Spec, container, run) {
		return
	}
	if run.Transport != string(v1alpha1.TransportStdio) {
		if !readOnly(container) || declares(container, temporary) || mountsTemporary(container) {
			return
		}
		container.WithEnv(corev1ac.EnvVar().WithName(temporary).WithValue(runconfig.ScratchPath))
	}
	container.WithVolumeMounts(corev1ac.VolumeMount().
		WithName(runconfig.ScratchVolume).WithMountPath(runconfig.ScratchPath))
	template.Spec.WithVolumes(corev1ac.Volume().WithName(runconfig.ScratchVolume).
		WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithSizeLimit(resource.MustParse(scratchSize))))
}

// temporary is the variable that names the folder for temporary files.
const temporary = "TMPDIR"

// scratchSize is what a server may write there. kubelet evicts a pod that writes more.
const scratchSize = "1Gi"

func isServer(container corev1ac.ContainerApplyConfiguration) bool {
	return ptr.Deref(container.Name, "") == podtemplate.ServerContainer
}

func readOnly(container *corev1ac.ContainerApplyConfiguration) bool {
	return container.SecurityContext != nil && ptr.Deref(container.SecurityContext.ReadOnlyRootFilesystem, false)
}

// takesScratch reports whether the spec has something else by the name of the volume, or at its path.
func takesScratch(
	pod *corev1ac.PodSpecApplyConfiguration, container *corev1ac.ContainerApplyConfiguration, run runconfig.Backend,
) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1ac.VolumeApplyConfiguration) bool {
		return ptr.Deref(v.Name, "") == runconfig.ScratchVolume
	}) || slices.ContainsFunc(run.VolumeClaimTemplates, func(c corev1.PersistentVolumeClaimTemplate) bool {
		return c.Name == runconfig.ScratchVolume
	}) || slices.ContainsFunc(container.VolumeMounts, func(m corev1ac.VolumeMountApplyConfiguration) bool {
		return within(ptr.Deref(m.MountPath, ""), runconfig.ScratchPath)
	})
}

// declares reports whether the spec declares a variable, or may: which ones envFrom brings is not known here.
func declares(container *corev1ac.ContainerApplyConfiguration, variable string) bool {
	named := func(v corev1ac.EnvVarApplyConfiguration) bool { return ptr.Deref(v.Name, "") == variable }
	return len(container.EnvFrom) > 0 || slices.ContainsFunc(container.Env, named)
}

// mountsTemporary reports whether the spec has a volume for temporary files.
func mountsTemporary(container *corev1ac.ContainerApplyConfiguration) bool {
	return slices.ContainsFunc(container.VolumeMounts, func(m corev1ac.VolumeMountApplyConfiguration) bool {
		return !ptr.Deref(m.ReadOnly, false) && within("/tmp", ptr.Deref(m.MountPath, ""))
	})
}

// within reports whether a path is another one, or lies in it.
func within(inner, outer string) bool {
	inner, outer = path.Clean("/"+inner), path.Clean("/"+outer)
	return inner == outer || strings.HasPrefix(inner, strings.TrimSuffix(outer, "/")+"/")
}
