package kit

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// faresOf returns the fate of each container: that of its image, unless something it needs is missing.
func (k *Kubelet) faresOf(ctx context.Context, pod *corev1.Pod) (map[string]Fate, error) {
	unmounted, err := k.missingVolume(ctx, pod)
	if err != nil {
		return nil, err
	}
	fates := map[string]Fate{}
	for _, c := range pod.Spec.Containers {
		k.mu.Lock()
		fate := k.fates[c.Image]
		k.mu.Unlock()
		if unmounted != "" {
			fate = Creating()
		} else if fate.waiting == nil {
			missing, err := k.missingEnvironment(ctx, pod.Namespace, c)
			if err != nil {
				return nil, err
			}
			if missing != "" {
				fate = configError(missing)
			}
		}
		fates[c.Name] = fate
	}
	if unmounted != "" && pod.Spec.NodeName != "" && pod.Status.PodIP == "" {
		return fates, k.event(ctx, pod, "FailedMount", unmounted)
	}
	return fates, nil
}

// event is written once a pod, before its first status.
func (k *Kubelet) event(ctx context.Context, pod *corev1.Pod, reason, message string) error {
	at := now()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: pod.Name + ".", Namespace: pod.Namespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name,
			UID: pod.UID,
		},
		Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		Source: corev1.EventSource{Component: kubeletName, Host: nodeName}, FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}
	if _, err := k.client.CoreV1().Events(pod.Namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("recording an event on pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// missingVolume returns kubelet's words on the first ConfigMap or Secret that a
// volume of the pod needs and that does not exist.
func (k *Kubelet) missingVolume(ctx context.Context, pod *corev1.Pod) (string, error) {
	for _, v := range pod.Spec.Volumes {
		var missing string
		var err error
		switch {
		case v.ConfigMap != nil && !isTrue(v.ConfigMap.Optional):
			missing, err = k.missing(ctx, pod.Namespace, "configmap", v.ConfigMap.Name, "")
		case v.Secret != nil && !isTrue(v.Secret.Optional):
			missing, err = k.missing(ctx, pod.Namespace, "secret", v.Secret.SecretName, "")
		}
		if v.Projected != nil {
			missing, err = k.missingSource(ctx, pod.Namespace, v.Projected.Sources)
		}
		if err != nil {
			return "", err
		}
		if missing != "" {
			return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %s", v.Name, missing), nil
		}
	}
	return "", nil
}

// missingSource is the same of a projected volume.
func (k *Kubelet) missingSource(
	ctx context.Context, namespace string, sources []corev1.VolumeProjection,
) (missing string, err error) {
	for _, from := range sources {
		switch {
		case from.ConfigMap != nil:
			missing, err = k.missingUnless(ctx, from.ConfigMap.Optional, namespace, "configmap", from.ConfigMap.Name, "")
		case from.Secret != nil:
			missing, err = k.missingUnless(ctx, from.Secret.Optional, namespace, "secret", from.Secret.Name, "")
		}
		if missing != "" || err != nil {
			return missing, err
		}
	}
	return "", nil
}

// missingEnvironment returns kubelet's words on the first ConfigMap or Secret, or key of one, that the container's
// environment needs and that does not exist.
func (k *Kubelet) missingEnvironment(ctx context.Context, namespace string, c corev1.Container) (string, error) {
	for _, from := range c.EnvFrom {
		kind, name, optional := "configmap", "", (*bool)(nil)
		switch {
		case from.ConfigMapRef != nil:
			name, optional = from.ConfigMapRef.Name, from.ConfigMapRef.Optional
		case from.SecretRef != nil:
			kind, name, optional = "secret", from.SecretRef.Name, from.SecretRef.Optional
		}
		if missing, err := k.missingUnless(ctx, optional, namespace, kind, name, ""); missing != "" || err != nil {
			return missing, err
		}
	}
	for _, env := range c.Env {
		var missing string
		var err error
		switch from := env.ValueFrom; {
		case from == nil:
		case from.ConfigMapKeyRef != nil:
			missing, err = k.missingUnless(ctx, from.ConfigMapKeyRef.Optional, namespace, "configmap", from.ConfigMapKeyRef.Name,
				from.ConfigMapKeyRef.Key)
		case from.SecretKeyRef != nil:
			missing, err = k.missingUnless(ctx, from.SecretKeyRef.Optional, namespace, "secret", from.SecretKeyRef.Name,
				from.SecretKeyRef.Key)
		}
		if missing != "" || err != nil {
			return missing, err
		}
	}
	return "", nil
}

func (k *Kubelet) missingUnless(
	ctx context.Context, optional *bool, namespace, kind, name, key string,
) (string, error) {
	if isTrue(optional) || name == "" {
		return "", nil
	}
	return k.missing(ctx, namespace, kind, name, key)
}

func (k *Kubelet) missing(ctx context.Context, namespace, kind, name, key string) (string, error) {
	found := false
	var err error
	if kind == "secret" {
		var secret *corev1.Secret
		secret, err = k.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			_, found = secret.Data[key]
		}
	} else {
		var configMap *corev1.ConfigMap
		configMap, err = k.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			_, found = configMap.Data[key]
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("%s %q not found", kind, name), nil
	case err != nil:
		return "", fmt.Errorf("reading %s %s/%s: %w", kind, namespace, name, err)
	case key != "" && !found:
		return fmt.Sprintf("couldn't find key %s in %s %s/%s", key, kind, namespace, name), nil
	}
	return "", nil
}

func isTrue(b *bool) bool { return b != nil && *b }
