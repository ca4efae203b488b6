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
// the container of any other server: there a root file system that is read-only says it
// (docs/adr/0091-a-place-to-write.md).
func scratch(template *corev1ac.PodTemplateSpecApplyConfiguration, run runconfig.Backend) {
	container := &template.Spec.Containers[slices.IndexFunc(template.Spec.Containers, isServer)]
	if takesScratch(template.Spec, container, run) {
		return
	}
	if run.Transport != string(v1alpha1.TransportStdio) {
		needs := slices.DeleteFunc([]string{"HOME", "TMPDIR"}, func(name string) bool {
			return !readOnly(container) || declares(container, name) || brings(container, name)
		})
		if len(needs) == 0 {
			return
		}
		for _, name := range needs {
			container.WithEnv(corev1ac.EnvVar().WithName(name).WithValue(runconfig.ScratchPath))
		}
	}
	container.WithVolumeMounts(corev1ac.VolumeMount().
		WithName(runconfig.ScratchVolume).WithMountPath(runconfig.ScratchPath))
	template.Spec.WithVolumes(corev1ac.Volume().WithName(runconfig.ScratchVolume).
		WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithSizeLimit(resource.MustParse(scratchSize))))
}

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

func declares(container *corev1ac.ContainerApplyConfiguration, variable string) bool {
	return slices.ContainsFunc(container.Env, func(v corev1ac.EnvVarApplyConfiguration) bool {
		return ptr.Deref(v.Name, "") == variable
	})
}

// brings reports whether the spec brings a place to write for a variable: a volume at /tmp, or any one, which may lie
// in the home directory. A program that finds that elsewhere would not find what it has written.
func brings(container *corev1ac.ContainerApplyConfiguration, variable string) bool {
	return slices.ContainsFunc(container.VolumeMounts, func(m corev1ac.VolumeMountApplyConfiguration) bool {
		return !ptr.Deref(m.ReadOnly, false) && (variable == "HOME" || within("/tmp", ptr.Deref(m.MountPath, "")))
	})
}

// within reports whether a path is another one, or lies in it.
func within(inner, outer string) bool {
	inner, outer = path.Clean("/"+inner), path.Clean("/"+outer)
	return inner == outer || strings.HasPrefix(inner, strings.TrimSuffix(outer, "/")+"/")
}
