package references

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// Index lets a cache find workloads by what they refer to. It is called once,
// before the cache starts.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, f := range fields {
		index := func(obj client.Object) []string {
			if name := From(obj, f.config); name != "" {
				return []string{name}
			}
			return nil
		}
		for _, kind := range kinds.All() {
			if err := indexer.IndexField(ctx, kind.New(), f.path, index); err != nil {
				return fmt.Errorf("indexing %s of %s: %w", f.path, kind.Object.Kind, err)
			}
		}
	}
	return nil
}

// To returns the workloads of a namespace that refer to the configuration of a kind
// and name, in the form of MCPServers and sorted by kind and name. reader is a cache
// with Index; what it returns is the cache's own, and must not be changed.
func To(ctx context.Context, reader client.Reader, config, namespace, name string) ([]v1alpha1.MCPServer, error) {
	var found []v1alpha1.MCPServer
	for _, f := range fields {
		if f.config != config {
			continue
		}
		for _, kind := range kinds.All() {
			list := kind.NewList()
			err := reader.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{f.path: name}, client.UnsafeDisableDeepCopy)
			if err != nil {
				return nil, fmt.Errorf("listing each %s that refers to %s %s/%s: %w", kind.Object.Kind, config, namespace, name, err)
			}
			found = append(found, kinds.Forms(list)...)
		}
	}
	slices.SortFunc(found, func(a, b v1alpha1.MCPServer) int {
		return cmp.Or(cmp.Compare(kinds.Of(&a).Object.Kind, kinds.Of(&b).Object.Kind), cmp.Compare(a.Name, b.Name))
	})
	return found, nil
}
