package references

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
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
		if err := indexer.IndexField(ctx, &v1alpha1.MCPServer{}, f.path, index); err != nil {
			return fmt.Errorf("indexing %s: %w", f.path, err)
		}
	}
	return nil
}

// To returns the workloads of a namespace that refer to the configuration of a kind
// and name, sorted by name. reader is a cache with Index; what it returns is the
// cache's own, and must not be changed.
func To(ctx context.Context, reader client.Reader, config, namespace, name string) ([]v1alpha1.MCPServer, error) {
	servers := &v1alpha1.MCPServerList{}
	for _, f := range fields {
		if f.config != config {
			continue
		}
		err := reader.List(ctx, servers, client.InNamespace(namespace), client.MatchingFields{f.path: name}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("listing the servers that refer to %s %s/%s: %w", config, namespace, name, err)
		}
	}
	slices.SortFunc(servers.Items, func(a, b v1alpha1.MCPServer) int { return cmp.Compare(a.Name, b.Name) })
	return servers.Items, nil
}
