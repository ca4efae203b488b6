package controllers

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/metrics"
	"github.com/freehold-dev/freehold/controllers/reconcile"
)

func registerObjectMetrics(reader client.Reader, scheme *runtime.Scheme, counted ...reconcile.Kind) {
	sources := make([]metrics.Source, 0, len(counted))
	for _, kind := range counted {
		sources = append(sources, metrics.Source{
			Kind: kind.Kind,
			// The runner's conditions, besides our own.
			Types: append([]string{
				v1alpha1.ConditionBackendApplied, v1alpha1.ConditionBackendAnswers, v1alpha1.ConditionToolsLost,
			}, kind.Conditions...),
			List: func(ctx context.Context) ([][]metav1.Condition, error) {
				return allConditions(ctx, reader, scheme, kind)
			},
		})
	}
	metrics.Of(sources...)
}

func allConditions(
	ctx context.Context, reader client.Reader, scheme *runtime.Scheme, kind reconcile.Kind,
) ([][]metav1.Condition, error) {
	empty, err := scheme.New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return nil, err
	}
	list := empty.(client.ObjectList)
	// Safe, because they are only read.
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var all [][]metav1.Condition
	err = meta.EachListItem(list, func(object runtime.Object) error {
		all = append(all, conditionsOf(object))
		return nil
	})
	return all, err
}

func conditionsOf(object runtime.Object) []metav1.Condition {
	if workload, ok := object.(kinds.Object); ok {
		return workload.GetProxyStatus().Conditions
	}
	if config, ok := object.(interface {
		GetConfigStatus() *v1alpha1.ConfigStatus
	}); ok {
		return config.GetConfigStatus().Conditions
	}
	return nil
}
