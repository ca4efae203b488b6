package references

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// Index indexes workloads by the configurations they refer to. Call it once, before the cache starts.
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

func indexOf(config string) string { return "refersTo" + config }

// To returns the workloads of a namespace that refer to a configuration, sorted by kind and name. reader is a cache
// with Index; the result is the cache's own, and must not be changed.
func To(ctx context.Context, reader client.Reader, config, namespace, name string) ([]kinds.Object, error) {
	var found []kinds.Object
	for _, kind := range kinds.All() {
		list := kind.NewList()
		err := reader.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{indexOf(config): name},
			client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("listing each %s that refers to %s %s/%s: %w", kind.Object.Kind, config, namespace, name, err)
		}
		found = append(found, kinds.Items(list)...)
	}
	slices.SortFunc(found, func(a, b kinds.Object) int {
		return cmp.Or(cmp.Compare(kinds.Of(a).Object.Kind, kinds.Of(b).Object.Kind), cmp.Compare(a.GetName(), b.GetName()))
	})
	return found, nil
}
