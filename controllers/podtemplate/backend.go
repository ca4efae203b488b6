package podtemplate

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

const (
	// ServerContainer runs the user's image.
	ServerContainer = "server"
	// AnnotationRestartedAt is spec.restartedAt, on the backend's pods, or on the proxy's without a backend.
	AnnotationRestartedAt = "freehold.dev/restarted-at"
)

// probeSeconds is short, because the rollout of a backend waits for it.
const probeSeconds = 2

// BackendSleep is how long a backend pod still takes calls after its deletion: 5 seconds until every node knows of
// it, and 2 in which proxies still use their connections.
const BackendSleep = 7 * time.Second

// Backend is the template of a backend's pods without its hash, merged with the overlay, or without the overlay if
// there are problems.
func Backend(run runconfig.Backend, labels map[string]string) (*corev1ac.PodTemplateSpecApplyConfiguration, []Problem) {
	pod := userPod(run)
	user, err := intent[corev1ac.PodTemplateSpecApplyConfiguration](pod)
	if err != nil {
		return corev1ac.PodTemplateSpec(), []Problem{{"spec", err.Error()}}
	}
	user.Spec.Containers[0].
		WithPorts(containerPort(PortMCP, run.Port)).
		WithReadinessProbe(corev1ac.Probe().
			WithPeriodSeconds(probeSeconds).
			// The port, not MCP: a server may ask for credentials first.
			WithTCPSocket(corev1ac.TCPSocketAction().WithPort(intstr.FromString(PortMCP)))).
		// The last words of a container are in its log, not in a file.
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithSecurityContext(containerSecurity())
	user.Spec.
		// Other Services of the namespace must not reach the environment.
		WithEnableServiceLinks(false).
		WithSecurityContext(podSecurity())
	if run.ServiceAccountName == "" {
		user.Spec.WithAutomountServiceAccountToken(false)
	}
	if run.Bridge != nil {
		bridge(user, run)
	}
	user.WithLabels(labels)
	user.WithAnnotations(restarted(run.RestartedAt))
	overlay := backendOverlay(run)
	merged, problems := overlay.merge(user)
	problems = append(problems, meetsBridge(run)...)
	problems = append(problems, breaches("", pod)...)
	problems = append(problems, readsToken("", pod, overlay.noToken)...)
	if problems = append(problems, runnersAccount(run)...); len(problems) > 0 {
		return user, problems
	}
	problems = append(claimProblems(merged, run.VolumeClaimTemplates), incomplete(overlay.field, merged, run)...)
	if len(problems) > 0 {
		return user, problems
	}
	declare(merged, run)
	sleepFirst(merged.Spec)
	return merged, nil
}

// restarted is the annotation that replaces pods when at changes; none if empty.
func restarted(at string) map[string]string {
	if at == "" {
		return nil
	}
	return map[string]string{AnnotationRestartedAt: at}
}

// claimProblems finds metadata that a claim must not have, and volumes of the overlay that a claim would replace
// (https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#volume-claim-templates).
func claimProblems(
	merged *corev1ac.PodTemplateSpecApplyConfiguration, claims []corev1.PersistentVolumeClaimTemplate,
) []Problem {
	var problems []Problem
	for _, c := range claims {
		at := fmt.Sprintf("spec.volumeClaimTemplates[metadata.name=%s].metadata.", c.Name)
		problems = append(problems, Keys(at+"labels", c.Labels, true)...)
		problems = append(problems, Keys(at+"annotations", c.Annotations, false)...)
	}
	for _, v := range merged.Spec.Volumes {
		if slices.ContainsFunc(claims, func(c corev1.PersistentVolumeClaimTemplate) bool { return c.Name == *v.Name }) {
			problems = append(problems, Problem{
				fmt.Sprintf("spec.podTemplate.spec.volumes[name=%s]", *v.Name),
				"has the name of an item of spec.volumeClaimTemplates: choose another name",
			})
		}
	}
	return problems
}

// sleepFirst delays the end of the user's container while calls arrive, unless the overlay has a preStop hook. It
// takes at most half of the grace period, which defaults to 30 seconds.
func sleepFirst(pod *corev1ac.PodSpecApplyConfiguration) {
	seconds, server := int64(BackendSleep/time.Second), &pod.Containers[0]
	if grace := pod.TerminationGracePeriodSeconds; grace != nil {
		seconds = min(seconds, *grace/2)
	}
	if server.Lifecycle == nil {
		server.Lifecycle = corev1ac.Lifecycle()
	}
	switch {
	case server.Lifecycle.PreStop == nil && seconds > 0:
		server.Lifecycle.WithPreStop(corev1ac.LifecycleHandler().WithSleep(corev1ac.SleepAction().WithSeconds(seconds)))
	case *server.Lifecycle == corev1ac.LifecycleApplyConfiguration{}:
		server.Lifecycle = nil // an intent carries no empty object
	}
}

// userPod is the pod's part of the spec in core types.
func userPod(b runconfig.Backend) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{
			Name:            ServerContainer,
			Image:           b.Image,
			Command:         b.Command,
			Args:            b.Args,
			Env:             b.Env,
			EnvFrom:         b.EnvFrom,
			Resources:       corev1.ResourceRequirements{Limits: b.Resources.Limits, Requests: b.Resources.Requests},
			VolumeMounts:    b.VolumeMounts,
			ImagePullPolicy: b.ImagePullPolicy,
		}},
		Volumes:            b.Volumes,
		ImagePullSecrets:   b.ImagePullSecrets,
		ServiceAccountName: b.ServiceAccountName,
	}}
}
