package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/test/kit"
)

// twinGroup is that of a kind that is MCPServer in all but its group, so that no operator knows of it.
const twinGroup = "floor.freehold.dev"

func twins() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{
		Group: twinGroup, Version: contract.MCPServer.Version,
		Kind: "MCPServerList",
	})
	return list
}

// defineTwin adds the kind.
func (w *world) defineTwin(ctx context.Context) error {
	definition, group := &unstructured.Unstructured{}, v1alpha1.SchemeGroupVersion.Group
	definition.SetGroupVersionKind(
		schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := w.Client.Get(ctx, client.ObjectKey{Name: "mcpservers." + group}, definition); err != nil {
		return fmt.Errorf("reading the kind: %w", err)
	}
	names := map[string]any{
		"kind": "MCPServer", "listKind": "MCPServerList", "plural": "mcpservers",
		"singular": "mcpserver",
	}
	spec, _, err := unstructured.NestedMap(definition.Object, "spec")
	if err != nil {
		return fmt.Errorf("reading the kind: %w", err)
	}
	spec["group"], spec["names"] = twinGroup, names
	twin := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": definition.GetAPIVersion(), "kind": definition.GetKind(),
		"metadata": map[string]any{"name": "mcpservers." + twinGroup}, "spec": spec,
	}}
	if err := w.Client.Create(ctx, twin); err != nil {
		return fmt.Errorf("defining the kind of the floor: %w", err)
	}
	// The API server serves a kind some time after it took its definition.
	often := wait.Backoff{Duration: 100 * time.Millisecond, Steps: 10 * int(kit.Patience.Seconds())}
	return retry.OnError(often, func(error) bool { return ctx.Err() == nil }, func() error {
		return w.Client.List(ctx, twins(), client.InNamespace(namespace))
	})
}

// floor is how long the requests of a change take if nothing decides, compares or waits for its turn: the spec, Ready
// that goes down, the claim, and the proxy, each sent once a watch has shown the one before.
func (n *neighbour) floor(ctx context.Context) (float64, error) {
	n.turn++
	says := fmt.Sprint(n.turn)
	object, err := n.w.read(inPlace(hop, image(1), fmt.Sprintf("args: [%q]", says)))
	if err != nil {
		return 0, err
	}
	object.SetGroupVersionKind(twins().GroupVersionKind().GroupVersion().WithKind("MCPServer"))
	begin := time.Now()
	if err := n.w.put(ctx, object); err != nil {
		return 0, err
	}
	server := &v1alpha1.MCPServer{}
	err = await(ctx, n.twins, func(o *unstructured.Unstructured) bool {
		server = &v1alpha1.MCPServer{}
		return runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, server) == nil &&
			slices.Equal(server.Spec.Args, []string{says})
	})
	if err != nil {
		return 0, err
	}
	server.SetGroupVersionKind(contract.MCPServer.GroupVersionKind)
	applies, err := beforeRollout(server, nil)
	if err != nil {
		return 0, err
	}
	for _, a := range applies {
		if err := n.send(ctx, a); err != nil {
			return 0, err
		}
	}
	return time.Since(begin).Seconds(), nil
}

// send sends one of the floor's applies, and waits for its event.
func (n *neighbour) send(ctx context.Context, a statement) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(a.intent)
	if err != nil {
		return fmt.Errorf("reading an intent: %w", err)
	}
	object := &unstructured.Unstructured{Object: content}
	if object.GetKind() == "MCPServer" {
		object.SetGroupVersionKind(twins().GroupVersionKind().GroupVersion().WithKind("MCPServer"))
		err := insist(ctx, func() error {
			intent := client.ApplyConfigurationFromUnstructured(object.DeepCopy())
			return n.w.Client.Status().Apply(ctx, intent, client.FieldOwner(a.manager), client.ForceOwnership)
		})
		if err != nil {
			return err
		}
		return await(ctx, n.twins, func(*unstructured.Unstructured) bool { return true })
	}
	if err := ownedByNobody(object); err != nil {
		return err
	}
	rev, err := revision.Of(object.GetAnnotations())
	if err != nil {
		return err
	}
	err = insist(ctx, func() error {
		return n.w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()),
			client.FieldOwner(a.manager), client.ForceOwnership)
	})
	if err != nil {
		return err
	}
	return await(ctx, n.proxies, func(d *appsv1.Deployment) bool {
		now, err := revision.Of(d.Annotations)
		return err == nil && d.Name == object.GetName() && now == rev
	})
}

// ownedByNobody takes from a proxy what makes it one of a server, and its pods.
func ownedByNobody(proxy *unstructured.Unstructured) error {
	proxy.SetOwnerReferences(nil)
	labels := map[string]string{"app": hop}
	proxy.SetLabels(labels)
	for _, path := range [][]string{{"spec", "selector", "matchLabels"}, {"spec", "template", "metadata", "labels"}} {
		if err := unstructured.SetNestedStringMap(proxy.Object, labels, path...); err != nil {
			return fmt.Errorf("giving the floor's proxy labels of its own: %w", err)
		}
	}
	return unstructured.SetNestedField(proxy.Object, int64(0), "spec", "replicas")
}
