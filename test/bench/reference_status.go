package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// changeStatus writes the status if change makes a difference, and again on what the API server has where it had moved.
func (r *reference) changeStatus(
	ctx context.Context, server *v1alpha1.MCPServer, change func(*v1alpha1.MCPServerStatus),
) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		next := server.DeepCopy()
		change(&next.Status)
		if equality.Semantic.DeepEqual(server.Status, next.Status) {
			return nil
		}
		err := r.writeStatus(ctx, next, server)
		if apierrors.IsConflict(err) {
			if e := r.live.Get(ctx, client.ObjectKeyFromObject(server), server); e != nil {
				return e
			}
		}
		return err
	})
}

func (r *reference) writeStatus(ctx context.Context, server, before *v1alpha1.MCPServer) error {
	if r.updatesStatus {
		return r.Status().Update(ctx, server)
	}
	return r.Status().Patch(ctx, server, locked(before))
}

// report says what Freehold says of a server that comes up without trouble.
func report(
	server *v1alpha1.MCPServer, proxy *appsv1.Deployment, backend *appsv1.StatefulSet,
) func(*v1alpha1.MCPServerStatus) {
	up := proxy.Status.AvailableReplicas > 0 && proxy.Status.ObservedGeneration >= proxy.Generation &&
		backend.Status.ReadyReplicas > 0 && backend.Status.ObservedGeneration >= backend.Generation
	return func(s *v1alpha1.MCPServerStatus) {
		say := func(t string, status metav1.ConditionStatus, reason, message string) {
			meta.SetStatusCondition(&s.Conditions, metav1.Condition{
				Type: t, Status: status, Reason: reason, Message: message, ObservedGeneration: server.Generation,
			})
		}
		s.ObservedGeneration = server.Generation
		say(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted, "")
		if !up || s.Runtime == nil {
			say(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonStarting,
				"waiting for the proxy and its backend to become ready")
			say(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonStarting,
				"waiting for the proxy and its backend to become ready")
			return
		}
		say(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionReconciling)
		s.URL = workload.URL(workload.OwnerOf(server), server.Spec.Proxy, server.Spec.Path)
		s.Replicas, s.ReadyReplicas = &backend.Status.Replicas, &backend.Status.ReadyReplicas
		s.Selector = labels.SelectorFromSet(workload.Selector(server.Name, workload.ComponentBackend)).String()
	}
}
