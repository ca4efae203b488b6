package podtemplate

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

const (
	// AnnotationBridge is the version of the bridge, on backend pods with one.
	AnnotationBridge = "freehold.dev/bridge"
	// PortServer is the port of a server behind the bridge.
	PortServer = "server"

	bridgeProgram = runconfig.BridgePath + "/runner"
	// bridgeMemory limits a bridge beside its server: 64 MiB of messages may be in flight. The container that only
	// copies the program needs a fraction.
	bridgeMemory = "256Mi"
	copyMemory   = "64Mi"
	// bridgeDisk is above the size of the runner's program.
	bridgeDisk = "128Mi"
)

func bridge(template *corev1ac.PodTemplateSpecApplyConfiguration, run runconfig.Backend) {
	server := &template.Spec.Containers[0]
	template.WithAnnotations(map[string]string{AnnotationBridge: runconfig.BridgeVersion})
	for _, name := range run.Bridge.PullSecrets {
		if !slices.ContainsFunc(run.ImagePullSecrets, func(s corev1.LocalObjectReference) bool { return s.Name == name }) {
			template.Spec.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(name))
		}
	}
	container := corev1ac.Container().
		WithName(runconfig.BridgeContainer).
		WithImage(run.Bridge.Image).
		// The last words of a container are in its log, not in a file.
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithSecurityContext(runnerSecurity())
	if run.Transport == string(v1alpha1.TransportSSE) {
		beside(server, container, run)
	} else {
		inside(server, container, run)
		template.Spec.WithVolumes(corev1ac.Volume().
			WithName(runconfig.BridgeVolume).
			WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithSizeLimit(resource.MustParse(bridgeDisk))))
	}
	template.Spec.WithInitContainers(container)
}

// beside runs the bridge as a sidecar, which clients reach by the port's name
// (https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/).
func beside(server, container *corev1ac.ContainerApplyConfiguration, run runconfig.Backend) {
	server.Ports = nil
	server.WithPorts(containerPort(PortServer, run.Port))
	server.ReadinessProbe.TCPSocket.WithPort(intstr.FromString(PortServer))
	container.
		WithRestartPolicy(corev1.ContainerRestartPolicyAlways).
		WithResources(small(bridgeMemory)).
		WithArgs(runconfig.BridgeCommand,
			"-address", ":"+strconv.Itoa(runconfig.BridgePort),
			"-sse", fmt.Sprintf("http://127.0.0.1:%d%s", run.Port, run.Path)).
		WithPorts(containerPort(PortMCP, runconfig.BridgePort)).
		WithReadinessProbe(corev1ac.Probe().
			WithPeriodSeconds(probeSeconds).
			WithTCPSocket(corev1ac.TCPSocketAction().WithPort(intstr.FromString(PortMCP))))
}

// inside runs the bridge in the server's container, with the server as its child and no additional rights.
func inside(server, container *corev1ac.ContainerApplyConfiguration, run runconfig.Backend) {
	container.
		WithArgs(runconfig.BridgeCommand, "-install", bridgeProgram).
		WithResources(copyResources(run.Resources)).
		WithVolumeMounts(corev1ac.VolumeMount().WithName(runconfig.BridgeVolume).WithMountPath(runconfig.BridgePath))
	server.Command, server.Args = nil, nil
	server.
		WithCommand(bridgeProgram, runconfig.BridgeCommand).
		WithArgs(bridgeArgs(run, server.Env)...).
		WithVolumeMounts(mount(runconfig.BridgeVolume, runconfig.BridgePath))
	for i := range server.EnvFrom {
		server.EnvFrom[i].WithPrefix(runconfig.DeclaredPrefix + ptr.Deref(server.EnvFrom[i].Prefix, ""))
	}
}

// bridgeArgs are the bridge's arguments, then -- and the server's command. The server gets the container's variables,
// env.
func bridgeArgs(run runconfig.Backend, env []corev1ac.EnvVarApplyConfiguration) []string {
	args := []string{"-address", ":" + strconv.Itoa(int(run.Port))}
	if run.Bridge.Shared {
		args = append(args, "-shared")
	} else {
		args = append(args, "-sessions", strconv.Itoa(int(run.Bridge.Sessions)))
	}
	if idle := run.Bridge.IdleSeconds; idle != 0 { // else as the pods of before have it
		args = append(args, "-idle", strconv.Itoa(int(idle))+"s")
	}
	for _, variable := range env {
		args = append(args, "-env", *variable.Name)
	}
	command := slices.Concat(run.Command, run.Args)
	if len(run.EnvFrom) > 0 {
		command = declaredArgs(command, env)
	}
	return slices.Concat(args, []string{"--"}, command)
}

// declare passes the overlay's variables to the server, too, and those of envFrom that others refer to.
func declare(merged *corev1ac.PodTemplateSpecApplyConfiguration, run runconfig.Backend) {
	if run.Bridge != nil && run.Transport != string(v1alpha1.TransportSSE) {
		server := &merged.Spec.Containers[0]
		if len(run.EnvFrom) > 0 {
			declaredEnv(server.Env)
		}
		server.Args = bridgeArgs(run, server.Env)
	}
}

// copyResources are the server's, so that the pod requests no more than without a bridge, and passes the same quotas;
// else small ones.
func copyResources(server runconfig.Resources) *corev1ac.ResourceRequirementsApplyConfiguration {
	if !server.IsZero() {
		return resources(server.Limits, server.Requests)
	}
	return small(copyMemory)
}

func small(memory string) *corev1ac.ResourceRequirementsApplyConfiguration {
	return resources(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}, corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("10m"),
		corev1.ResourceMemory: resource.MustParse("16Mi"),
	})
}

const theBridge = "is Freehold's bridge, which runs as it is: "

func meetsBridge(run runconfig.Backend) []Problem {
	if run.Bridge == nil {
		return nil
	}
	var problems []Problem
	for _, v := range run.Volumes {
		if v.Name == runconfig.BridgeVolume {
			problems = append(problems, Problem{
				fmt.Sprintf("spec.volumes[name=%s].name", v.Name),
				theBridge + "choose another name",
			})
		}
	}
	for _, m := range run.VolumeMounts {
		if m.Name == runconfig.BridgeVolume || within(m.MountPath) {
			problems = append(problems, Problem{
				fmt.Sprintf("spec.volumeMounts[mountPath=%s]", m.MountPath),
				theBridge + "mount another volume elsewhere",
			})
		}
	}
	return problems
}

func within(mountPath string) bool {
	return strings.HasPrefix(path.Clean("/"+mountPath)+"/", runconfig.BridgePath+"/")
}

// reachesBridge finds what of an overlay would change the bridge.
func (o overlay) reachesBridge(template *corev1.PodTemplateSpec) []Problem {
	if !o.bridged {
		return nil
	}
	var problems []Problem
	walk(o.field, reflect.ValueOf(template), func(at spot) {
		switch v := at.value.Interface().(type) {
		case corev1.VolumeMount:
			if v.Name == runconfig.BridgeVolume || within(v.MountPath) {
				problems = append(problems, Problem{at.path, theBridge + "mount another volume elsewhere"})
			}
		case corev1.Container:
			if v.Name == runconfig.BridgeContainer {
				problems = append(problems, Problem{
					at.path,
					theBridge + "choose another name; resources of the pod as a whole are in spec.podTemplate.spec.resources",
				})
			}
		}
	})
	return problems
}
