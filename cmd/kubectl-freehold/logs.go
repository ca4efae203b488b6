package main

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

const (
	logLines = int64(2000)
	logBytes = int64(4 << 20)
)

// logs adds the last lines of the operator and of the server's pods, also of ended containers.
func (c *cli) logs(ctx context.Context, b *bundle, children, operators []*unstructured.Unstructured, backend bool) {
	_, client, err := c.clientset()
	if err != nil {
		b.missed("logs", err)
		return
	}
	for _, pod := range c.loggedPods(ctx, b, children, operators) {
		for _, container := range logged(&pod, backend) {
			for _, previous := range []bool{false, true} {
				name := "logs/" + pod.Name + "-" + container + map[bool]string{true: ".previous"}[previous] + ".log"
				text, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
					Container: container, Previous: previous, TailLines: new(logLines), LimitBytes: new(logBytes), Timestamps: true,
				}).DoRaw(ctx)
				switch {
				case err == nil:
					b.files[name] = text
				case !previous: // most have not ended before
					b.missed(name, err)
				}
			}
		}
	}
}

// loggedPods are the server's and the operators'.
func (c *cli) loggedPods(
	ctx context.Context, b *bundle, children, operators []*unstructured.Unstructured,
) (pods []corev1.Pod) {
	for _, u := range children {
		if u.GetKind() != "Pod" {
			continue
		}
		var pod corev1.Pod
		if err := decode(u, &pod); err != nil {
			b.missed(title(u), err)
			continue
		}
		pods = append(pods, pod)
	}
	for _, u := range operators {
		var d appsv1.Deployment
		err := decode(u, &d)
		if err == nil {
			var its []corev1.Pod
			its, err = c.podsOf(ctx, &d)
			pods = append(pods, its...)
		}
		if err != nil {
			b.missed("operator/", err)
		}
	}
	return pods
}

// logged are the containers of a pod whose logs are bundled. Those of the user's containers need --backend-logs.
func logged(pod *corev1.Pod, backend bool) []string {
	_, servers := pod.Labels[serverLabel]
	all := backend || !servers || pod.Labels["app.kubernetes.io/component"] == "proxy"
	var names []string
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if all || container.Name == runconfig.BridgeContainer {
			names = append(names, container.Name)
		}
	}
	return names
}
