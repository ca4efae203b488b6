package podtemplate

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// runnerUser is the user and group of the runner's image. It is a number, because kubelet cannot tell whether a named
// user is root.
const runnerUser = 65532

// podSecurity and containerSecurity together meet the "restricted" Pod Security Standard
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted). The pod's holds for containers
// of an overlay, too.
func podSecurity() *corev1ac.PodSecurityContextApplyConfiguration {
	return corev1ac.PodSecurityContext().
		WithRunAsNonRoot(true).
		WithSeccompProfile(seccomp())
}

func containerSecurity() *corev1ac.SecurityContextApplyConfiguration {
	return corev1ac.SecurityContext().
		WithAllowPrivilegeEscalation(false).
		WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))
}

// restricted are the fields of both that a backend's overlay may replace within baseline, because some images need it.
var restricted = fieldpath.NewSet(
	fieldpath.MakePathOrDie("template", "spec", "securityContext", "runAsNonRoot"),
	fieldpath.MakePathOrDie("template", "spec", "securityContext", "seccompProfile"),
	fieldpath.MakePathOrDie("template", "spec", "containers", fieldpath.KeyByFields("name", ServerContainer),
		"securityContext", "allowPrivilegeEscalation"),
	fieldpath.MakePathOrDie("template", "spec", "containers", fieldpath.KeyByFields("name", ServerContainer),
		"securityContext", "capabilities", "drop"),
)

// asRoot finds what would run as root. A proxy's pod never does: it has the runner's token, and an escaped root
// process reads the files of all pods of the node. A backend may, because some images need it, if the overlay says so
// explicitly.
func (o overlay) asRoot(template *corev1.PodTemplateSpec) []Problem {
	podNonRoot := true
	if pod := template.Spec.SecurityContext; pod != nil {
		podNonRoot = ptr.Deref(pod.RunAsNonRoot, true)
	}
	var problems []Problem
	walk(o.field, reflect.ValueOf(template), func(at spot) {
		var user *int64
		var nonRoot *bool
		switch v := at.value.Interface().(type) {
		case *corev1.PodSecurityContext:
			user, nonRoot = v.RunAsUser, v.RunAsNonRoot
		case *corev1.SecurityContext:
			user, nonRoot = v.RunAsUser, v.RunAsNonRoot
		default:
			return
		}
		isRoot := user != nil && *user == 0
		switch {
		case o.holdsToken && isRoot:
			problems = append(problems, Problem{
				at.path + ".runAsUser",
				"nothing in a proxy's pod runs as root: write another number, or remove it",
			})
		case o.holdsToken && !ptr.Deref(nonRoot, true):
			problems = append(problems, Problem{at.path + ".runAsNonRoot", "nothing in a proxy's pod runs as root: remove it"})
		case isRoot && ptr.Deref(nonRoot, podNonRoot):
			problems = append(problems, Problem{
				at.path + ".runAsUser",
				"0 is root: write another number, or runAsNonRoot: false beside it if the image must be root",
			})
		}
	})
	return problems
}

// runnerSecurity is for our own image, which writes no files. It repeats the pod's settings, so that no overlay
// changes them for this container.
func runnerSecurity() *corev1ac.SecurityContextApplyConfiguration {
	return containerSecurity().
		WithRunAsNonRoot(true).
		WithSeccompProfile(seccomp()).
		WithRunAsUser(runnerUser).
		WithRunAsGroup(runnerUser).
		WithReadOnlyRootFilesystem(true)
}

func seccomp() *corev1ac.SeccompProfileApplyConfiguration {
	return corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault)
}

// ClearHostNamespaces adds to template, for one write, that the pods do not use the node's network, processes and
// memory, if another writer set that in live, and returns the changed fields. A permanent false would be dropped by
// the API server and, beside a second applier, be written on every pass.
func ClearHostNamespaces(template *corev1ac.PodTemplateSpecApplyConfiguration, live corev1.PodSpec) []string {
	var left []string
	if !live.HostNetwork && !live.HostPID && !live.HostIPC {
		return left
	}
	if template.Spec == nil {
		template.WithSpec(corev1ac.PodSpec()) // an extract, of a pod spec that another writer replaced
	}
	spec := template.Spec
	if live.HostNetwork {
		spec.WithHostNetwork(false)
		left = append(left, "hostNetwork")
	}
	if live.HostPID {
		spec.WithHostPID(false)
		left = append(left, "hostPID")
	}
	if live.HostIPC {
		spec.WithHostIPC(false)
		left = append(left, "hostIPC")
	}
	return left
}
