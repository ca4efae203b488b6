package references

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// Index lets a cache find workloads by what they refer to. It is called once,
// before the cache starts.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, config := range contract.Configs() {
		index := func(obj client.Object) []string {
			if name := From(obj, config.Object.Kind); name != "" {
				return []string{name}
			}
			return nil
		}
		for _, kind := range kinds.All() {
			if err := indexer.IndexField(ctx, kind.New(), indexOf(config.Object.Kind), index); err != nil {
				return fmt.Errorf("indexing what each %s refers to of kind %s: %w", kind.Object.Kind, config.Object.Kind, err)
			}
		}
	}
	return nil
}

// indexOf is the name of the index of those that refer to a kind of configurations.
func indexOf(config string) string { return "refersTo" + config }

// To returns the workloads of a namespace that refer to the configuration of a kind
// and name, in the form of MCPServers and sorted by kind and name. reader is a cache
// with Index; what it returns is the cache's own, and must not be changed.
func To(ctx context.Context, reader client.Reader, config, namespace, name string) ([]v1alpha1.MCPServer, error) {
	var found []*v1alpha1.MCPServer
	for _, kind := range kinds.All() {
		list := kind.NewList()
		err := reader.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{indexOf(config): name}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("listing each %s that refers to %s %s/%s: %w", kind.Object.Kind, config, namespace, name, err)
		}
		forms := kinds.Forms(list)
		for i := range forms {
			found = append(found, &forms[i])
		}
	}
	// By pointers, since a server is large: sorting 500 would move megabytes.
	slices.SortFunc(found, func(a, b *v1alpha1.MCPServer) int {
		return cmp.Or(cmp.Compare(kinds.Of(a).Object.Kind, kinds.Of(b).Object.Kind), cmp.Compare(a.Name, b.Name))
	})
	sorted := make([]v1alpha1.MCPServer, 0, len(found))
	for _, server := range found {
		sorted = append(sorted, *server)
	}
	return sorted, nil
}
