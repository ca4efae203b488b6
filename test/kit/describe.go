package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"
)

// Describe is what a stranger needs to see of an object when a test failed:
// the object, who owns what, and its surroundings.
func (s *Env) Describe(object client.Object) string {
	// The test's context may have ended; this is its last word.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Ctx), 10*time.Second)
	defer cancel()
	gvk, err := apiutil.GVKForObject(object, s.Scheme)
	if err != nil {
		return err.Error()
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(gvk)
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
		return fmt.Sprintf("%s: %v\n%s", s.Title(object), err, s.Surroundings())
	}
	return fmt.Sprintf("--- %s\n%s--- owners\n%s%s", s.Title(object), plain(live), Owners(live.GetManagedFields()),
		s.Surroundings())
}

// Surroundings is the pods and events of the namespace, for failure messages.
func (s *Env) Surroundings() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Ctx), 10*time.Second)
	defer cancel()
	var text strings.Builder
	var pods corev1.PodList
	if err := s.Client.List(ctx, &pods, client.InNamespace(s.Namespace)); err != nil {
		return fmt.Sprintf("listing pods: %v\n", err)
	}
	fmt.Fprintf(&text, "--- pods of %s\n", s.Namespace)
	for i := range pods.Items {
		fmt.Fprintf(&text, "%s\n", podLine(&pods.Items[i]))
	}
	var events corev1.EventList
	if err := s.Client.List(ctx, &events, client.InNamespace(s.Namespace)); err != nil {
		return fmt.Sprintf("listing events: %v\n", err)
	}
	fmt.Fprintf(&text, "--- events of %s\n", s.Namespace)
	slices.SortFunc(events.Items, func(a, b corev1.Event) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	for _, e := range events.Items[max(0, len(events.Items)-30):] {
		fmt.Fprintf(&text, "%s %s/%s: %s: %s\n", e.Type, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason,
			OneLine(e.Message))
	}
	return text.String()
}

func podLine(pod *corev1.Pod) string {
	words := []string{pod.Name, string(pod.Status.Phase)}
	if pod.DeletionTimestamp != nil {
		words = append(words, "terminating")
	}
	for _, c := range pod.Status.ContainerStatuses {
		state := "not ready"
		switch {
		case c.State.Waiting != nil:
			state = c.State.Waiting.Reason + ": " + c.State.Waiting.Message
		case c.Ready:
			state = "ready"
		}
		words = append(words, fmt.Sprintf("[%s %s %s]", c.Name, c.Image, state))
	}
	return strings.Join(words, " ")
}

// plain is an object as YAML without managedFields.
func plain(object *unstructured.Unstructured) string {
	shown := object.DeepCopy()
	shown.SetManagedFields(nil)
	text, err := yaml.Marshal(shown.Object)
	if err != nil {
		return err.Error() + "\n"
	}
	return string(text)
}
