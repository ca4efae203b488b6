package workload

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// probeSeconds is short, because the rollout of a backend waits for it.
const probeSeconds = 2

// BackendSleep is how long a pod of the backend goes on taking calls after its
// end has been decided: 5 seconds until every node knows of it, and 2 in which
// proxies still begin calls on the connections they have.
const BackendSleep = 7 * time.Second

// Backend is the StatefulSet that runs the user's image. It never states
// replicas: whoever scales the server owns them. The StatefulSet carries the
// revision, its pods the hash of what they run. The error is *Refused, with the
// problems that Render found in the same spec.
func Backend(run runconfig.RunConfig) (*appsv1ac.StatefulSetApplyConfiguration, error) {
	template, problems := backendPod(run)
	if err := refused(problems); err != nil {
		return nil, err
	}
	id, rev := run.Server, revision.Revision(run.Workload)
	return appsv1ac.StatefulSet(BackendName(id.Name), id.Namespace).
		WithLabels(Labels(id.Name, ComponentBackend)).
		WithAnnotations(rev.Annotations()).
		WithOwnerReferences(serverOwner(id).reference()).
		WithSpec(appsv1ac.StatefulSetSpec().
			WithServiceName(HeadlessName(id.Name)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(id.Name, ComponentBackend))).
			// Parallel, because a stuck pod 0 would otherwise hold back the
			// pods that replace it.
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().
				WithType(appsv1.RollingUpdateStatefulSetStrategyType)).
			WithRevisionHistoryLimit(oldRevisions).
			WithTemplate(template.WithAnnotations(map[string]string{AnnotationBackendHash: run.Rendering.Backend}))), nil
}

// backendPod is the backend's pod template without its hash, merged with the
// overlay. Where there are problems the overlay is not in it.
func backendPod(run runconfig.RunConfig) (*corev1ac.PodTemplateSpecApplyConfiguration, []Problem) {
	pod := userPod(run.Backend)
	user, err := intent[corev1ac.PodTemplateSpecApplyConfiguration](pod)
	if err != nil {
		return corev1ac.PodTemplateSpec(), []Problem{{"spec", err.Error()}}
	}
	user.Spec.Containers[0].
		WithPorts(containerPort(PortMCP, run.Backend.Port)).
		WithReadinessProbe(corev1ac.Probe().
			WithPeriodSeconds(probeSeconds).
			// The port, not MCP: a server may ask for credentials first.
			WithTCPSocket(corev1ac.TCPSocketAction().WithPort(intstr.FromString(PortMCP)))).
		// The last words of a container that ends are its log, not a file.
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithSecurityContext(containerSecurity())
	user.Spec.
		// What else runs in the namespace must not reach the environment.
		WithEnableServiceLinks(false).
		WithSecurityContext(podSecurity())
	if run.Backend.ServiceAccountName == "" {
		user.Spec.WithAutomountServiceAccountToken(false)
	}
	user.WithLabels(Labels(run.Server.Name, ComponentBackend))
	if at := run.Backend.RestartedAt; at != "" {
		user.WithAnnotations(map[string]string{AnnotationRestartedAt: at})
	}
	overlay := backendOverlay(run)
	merged, problems := overlay.merge(user)
	problems = append(problems, breaches("", pod)...)
	problems = append(problems, readsToken("", pod, overlay.noToken)...)
	if problems = append(problems, runnersAccount(run.Backend)...); len(problems) > 0 {
		return user, problems
	}
	if problems := incomplete(overlay.field, merged, run.Backend.VolumeMounts); len(problems) > 0 {
		return user, problems
	}
	sleepFirst(merged.Spec)
	return merged, nil
}

// sleepFirst keeps the user's container from being told to end while calls come,
// unless the overlay says what it does before its end. It takes at most half of
// the grace period, which is 30 seconds where nobody states it.
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

// userPod is what the spec says about the pod in core types.
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
