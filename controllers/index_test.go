package controllers

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/workload"
)

// asked is a cache that remembers what it was asked for.
type asked struct {
	client.Reader
	options client.ListOptions
}

func (a *asked) List(_ context.Context, _ client.ObjectList, opts ...client.ListOption) error {
	a.options = client.ListOptions{}
	a.options.ApplyOptions(opts)
	return nil
}

func TestAnOwnersPodsAreFoundByIndex(t *testing.T) {
	echo := client.MatchingLabels{workload.LabelServer: "echo"}
	for name, tc := range map[string]struct {
		list client.ObjectList
		opts []client.ListOption
		want string
	}{
		"pods":            {&corev1.PodList{}, []client.ListOption{echo}, byOwner + "=echo"},
		"run configs":     {&metav1.PartialObjectMetadataList{}, []client.ListOption{echo}, byOwner + "=echo"},
		"pods of all":     {&corev1.PodList{}, []client.ListOption{client.HasLabels{workload.LabelServer}}, ""},
		"all pods":        {&corev1.PodList{}, nil, ""},
		"what is not so":  {&appsv1.DeploymentList{}, []client.ListOption{echo}, ""},
		"one by its name": {&corev1.EventList{}, []client.ListOption{client.MatchingFields{"a": "b"}}, "a=b"},
	} {
		cache, got := &asked{}, ""
		if err := (indexedReader{cache}).
			List(t.Context(), tc.list, append(tc.opts, client.InNamespace("ns"))...); err != nil {
			t.Fatal(err)
		}
		if cache.options.FieldSelector != nil {
			got = cache.options.FieldSelector.String()
		}
		if got != tc.want || cache.options.Namespace != "ns" {
			t.Errorf("%s: asked for %q in %q, want %q", name, got, cache.options.Namespace, tc.want)
		}
	}
}
