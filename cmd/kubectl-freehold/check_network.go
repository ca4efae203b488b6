package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/runspec"
	"github.com/freehold-dev/freehold/controllers/workload"
)

const (
	// strangerPatience is how long the pod may take to be scheduled, to pull its image and to end.
	strangerPatience = 2 * time.Minute
	strangerPause    = 500 * time.Millisecond
	// removalPatience is how long the removal of the pod may take.
	removalPatience = 30 * time.Second
	stranger        = "stranger"
)

// measure runs a pod beside a server that is ready, and says whether it reaches the backend past the proxy.
func (c *cli) measure(ctx context.Context, args []string, r *reached) (result, message string) {
	result, message = c.strangerReaches(ctx, r)
	if result == passed { // a backend without a ready pod refuses everybody
		after, err := c.reached(args)
		if err != nil {
			return unknown, err.Error()
		}
		if ready, why := after.ready(); !ready {
			result, message = unknown, "the server was not ready all the time: "+why
		}
	}
	return result, message
}

func (c *cli) strangerReaches(ctx context.Context, r *reached) (result, message string) {
	server, is := serverOf(r)
	if !is {
		return unknown, "the server is elsewhere: no policy of this cluster closes it"
	}
	_, pods, err := c.clientset()
	if err != nil {
		return failed, err.Error()
	}
	_, err = pods.NetworkingV1().NetworkPolicies(server.Namespace).Get(ctx, workload.BackendName(server.Name),
		metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return unknown, "no NetworkPolicy is about the backend, which every pod may reach: a login, policies, or " +
			"spec.network.backendIngress: ProxyOnly close it"
	case err != nil:
		return unknown, "reading its NetworkPolicy: " + err.Error()
	}
	proxy, err := pods.AppsV1().Deployments(server.Namespace).Get(ctx, workload.ProxyName(server.Name),
		metav1.GetOptions{})
	if err != nil {
		return unknown, "reading the proxy's image: " + err.Error()
	}
	intent, err := strangerOf(server, &proxy.Spec.Template.Spec)
	if err != nil {
		return unknown, err.Error()
	}
	code, err := c.runOnce(ctx, pods, intent)
	switch {
	case err != nil:
		return unknown, "running a pod that tries it: " + err.Error()
	case code == runconfig.ReachClosed:
		return passed, "NetworkPolicies are enforced: a pod beside the server reaches its proxy and not its backend"
	case code == runconfig.ReachOpen:
		return failed, "NetworkPolicies are not enforced: a pod beside the server reaches its backend past the proxy. " +
			"Use a network plugin that enforces them"
	case code != runconfig.ReachUnknown:
		return unknown, fmt.Sprintf("the pod that tries it ends with exit code %d: has the proxy an image of another "+
			"release?", code)
	}
	return unknown, "a pod beside the server reaches its proxy no more than its backend: look for a NetworkPolicy about " +
		"the egress of the namespace's pods"
}

// strangerOf is a pod beside a server that nothing of ours selects, with the image of its proxy. It passes the
// "restricted" Pod Security Standard.
func strangerOf(server *v1alpha1.MCPServer, proxy *corev1.PodSpec) (*corev1ac.PodApplyConfiguration, error) {
	i := slices.IndexFunc(proxy.Containers, func(c corev1.Container) bool { return c.Name == podtemplate.ProxyContainer })
	if i < 0 {
		return nil, fmt.Errorf("the proxy of %s has no container %s", server.Name, podtemplate.ProxyContainer)
	}
	slot := workload.Slot1
	if active := server.Status.Active; active != nil {
		slot = workload.Slot(active.Slot)
	}
	spec := corev1ac.PodSpec().WithRestartPolicy(corev1.RestartPolicyNever).WithAutomountServiceAccountToken(false).
		WithActiveDeadlineSeconds(int64(strangerPatience / time.Second)).
		WithSecurityContext(corev1ac.PodSecurityContext().WithRunAsNonRoot(true).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithContainers(corev1ac.Container().WithName(stranger).WithImage(proxy.Containers[i].Image).
			WithImagePullPolicy(proxy.Containers[i].ImagePullPolicy).
			WithArgs(runconfig.ReachCommand,
				fmt.Sprintf("--proxy=%s.%s.svc:%d", workload.ProxyName(server.Name), server.Namespace,
					runspec.ProxyPort(server.Spec.Proxy)),
				fmt.Sprintf("--backend=%s.%s.svc:%d", slot.Name(server.Name), server.Namespace, runconfig.CallPort)).
			WithResources(corev1ac.ResourceRequirements().
				WithRequests(proxy.Containers[i].Resources.Requests).WithLimits(proxy.Containers[i].Resources.Limits)).
			WithSecurityContext(corev1ac.SecurityContext().WithAllowPrivilegeEscalation(false).
				WithReadOnlyRootFilesystem(true).WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))))
	// It runs where the proxy may.
	spec.NodeSelector = proxy.NodeSelector
	spec.RuntimeClassName = proxy.RuntimeClassName
	for _, t := range proxy.Tolerations {
		spec.WithTolerations(&corev1ac.TolerationApplyConfiguration{
			Key: &t.Key, Operator: &t.Operator, Value: &t.Value, Effect: &t.Effect, TolerationSeconds: t.TolerationSeconds,
		})
	}
	for _, secret := range proxy.ImagePullSecrets {
		spec.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(secret.Name))
	}
	return corev1ac.Pod(fmt.Sprintf("%s-check-%s", server.Name, rand.String(5)), server.Namespace).
		WithLabels(map[string]string{"app.kubernetes.io/name": "freehold-check"}).WithSpec(spec), nil
}

// runOnce runs a pod to its end, and removes it. It returns what its container exits with.
func (c *cli) runOnce(
	ctx context.Context, pods kubernetes.Interface, intent *corev1ac.PodApplyConfiguration,
) (code int32, err error) {
	kind := ownership.Object{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod")}
	applier, reader, err := c.applierOf(kind.GroupVersionKind, false, ownership.Contract{
		Grants: []ownership.Grant{{
			Manager: undoManager, Object: kind, Mode: ownership.Shared, Create: true, Fields: []ownership.Path{{}},
		}},
		Removals: []ownership.Removal{{Object: kind}},
	})
	if err != nil {
		return 0, err
	}
	name, namespace := *intent.Name, *intent.Namespace
	if _, err := applier.As(undoManager).Apply(ctx, nil, intent); err != nil {
		return 0, err
	}
	defer func() {
		// Also after Ctrl+C. Its status changes until it has ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalPatience)
		defer cancel()
		pod := &unstructured.Unstructured{}
		pod.SetGroupVersionKind(kind.GroupVersionKind)
		left := retry.OnError(retry.DefaultRetry, func(err error) bool { return errors.Is(err, apply.ErrStale) },
			func() error {
				if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
					return client.IgnoreNotFound(err)
				}
				return applier.As(undoManager).Remove(ctx, pod)
			})
		if left != nil {
			fmt.Fprintf(c.ErrOut, "Pod %s is left, and ends by itself: %v\n", name, left)
		}
	}()
	return exitOf(ctx, pods.CoreV1().Pods(namespace), name)
}

// exitOf waits until a pod's container has ended, and returns what it exits with.
func exitOf(ctx context.Context, pods corev1client.PodInterface, name string) (code int32, err error) {
	ctx, cancel := context.WithTimeout(ctx, strangerPatience)
	defer cancel()
	for {
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		for _, status := range pod.Status.ContainerStatuses {
			if ended := status.State.Terminated; ended != nil {
				return ended.ExitCode, nil
			}
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("pod %s has not ended: %s", name, whyWaits(pod))
		case <-time.After(strangerPause):
		}
	}
}

// whyWaits is why a pod does not run, as kubelet or the scheduler say it.
func whyWaits(pod *corev1.Pod) string {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch {
		case status.State.Waiting != nil && status.State.Waiting.Reason != "ContainerCreating" &&
			status.State.Waiting.Reason != "PodInitializing":
			return fmt.Sprintf("%s: %s %s", status.Name, status.State.Waiting.Reason, status.State.Waiting.Message)
		case status.State.Terminated != nil && status.State.Terminated.ExitCode != 0:
			return fmt.Sprintf("%s: %s, exit code %d", status.Name, status.State.Terminated.Reason,
				status.State.Terminated.ExitCode)
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Status == corev1.ConditionFalse && condition.Message != "" {
			return fmt.Sprintf("%s: %s", condition.Reason, condition.Message)
		}
	}
	return "it is " + string(pod.Status.Phase)
}

// serverOf is the MCPServer, if it is one.
func serverOf(r *reached) (*v1alpha1.MCPServer, bool) {
	server := &v1alpha1.MCPServer{}
	return server, r.object.GetKind() == contract.MCPServer.Kind && decode(r.object, server) == nil
}
