package controllers

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// byOwner indexes objects by their owner, under the name of the label.
const byOwner = workload.LabelServer

// indexedReader reads from a manager's cache. A cache scans the namespace for a label; the index finds pods, run
// configs and contents of an owner directly.
type indexedReader struct{ client.Reader }

func addIndex(ctx context.Context, mgr ctrl.Manager) (indexedReader, error) {
	configs, contents := &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{}
	configs.SetGroupVersionKind(contract.ConfigMap.GroupVersionKind)
	contents.SetGroupVersionKind(contract.ControllerRevision.GroupVersionKind)
	for _, kind := range []client.Object{&corev1.Pod{}, configs, contents} {
		err := mgr.GetFieldIndexer().IndexField(ctx, kind, byOwner,
			func(obj client.Object) []string { return []string{obj.GetLabels()[workload.LabelServer]} })
		if err != nil {
			return indexedReader{}, err
		}
	}
	return indexedReader{mgr.GetClient()}, nil
}

// List uses the index where one owner's objects are asked for.
func (r indexedReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	switch list.(type) {
	case *corev1.PodList, *metav1.PartialObjectMetadataList:
		asked := (&client.ListOptions{}).ApplyOptions(opts)
		if asked.LabelSelector == nil {
			break
		}
		if key, one := asked.LabelSelector.RequiresExactMatch(workload.LabelServer); one {
			opts = append(slices.Clip(opts), client.MatchingFields{byOwner: key})
		}
	}
	return r.Reader.List(ctx, list, opts...)
}
