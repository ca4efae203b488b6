package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// oldRollout rolls new content out beside what serves as operators with plans were written: a plan with a random id in
// the status, which is merge-patched with or without an optimistic lock, a candidate that is named by the plan, and the
// switch once that is ready. There is no proxy, no check and no session, so that it has less to send than Freehold.
type oldRollout struct {
	client.Client
	locks bool
}

func runOldRollout(locks bool) role {
	return func(ctx context.Context, config *rest.Config, s settings, ready func()) error {
		scheme, err := controllers.NewScheme()
		if err != nil {
			return err
		}
		mgr, err := managerWith(config, s, scheme, cache.Options{}) // Freehold's keeps only names of such children
		if err != nil {
			return err
		}
		err = ctrl.NewControllerManagedBy(mgr).For(&v1alpha1.MCPServer{}).Owns(&appsv1.StatefulSet{}).
			WithOptions(controller.Options{MaxConcurrentReconciles: s.Workers, SkipNameValidation: new(true)}).
			Complete(&oldRollout{mgr.GetClient(), locks})
		if err != nil {
			return fmt.Errorf("registering the old way: %w", err)
		}
		return start(ctx, mgr, ready)
	}
}

// Reconcile is one pass over one server.
func (r *oldRollout) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	server := &v1alpha1.MCPServer{}
	if err := r.Get(ctx, req.NamespacedName, server); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before, status, hash := server.DeepCopy(), &server.Status, hashOf(server.Spec.Image)
	switch {
	case status.Active != nil && status.Active.Hash == hash:
		return ctrl.Result{}, nil
	case status.Rollout == nil || status.Rollout.Target.Hash != hash:
		status.Rollout = &v1alpha1.RolloutStatus{ID: rand.Text(), Target: v1alpha1.BackendContent{
			Slot: 1, Hash: hash, Generation: server.Generation,
			Port: 8080, Path: "/mcp", Transport: server.Spec.Transport,
		}}
		if err := r.patch(ctx, server, before); err != nil {
			return ctrl.Result{}, err
		}
	}
	candidate := &appsv1.StatefulSet{}
	key := client.ObjectKey{Namespace: server.Namespace, Name: candidateName(server, status.Rollout.ID)}
	err := r.Get(ctx, key, candidate)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err != nil {
		return ctrl.Result{}, client.IgnoreAlreadyExists(r.Create(ctx, candidateOf(server, status.Rollout.ID)))
	}
	if candidate.Status.ReadyReplicas < 1 {
		return ctrl.Result{}, nil
	}
	incumbent := status.LastRollout
	rollout := status.Rollout
	before = server.DeepCopy()
	status.Active = &v1alpha1.ActiveBackend{BackendContent: rollout.Target, Since: metav1.Now()}
	status.LastRollout = &v1alpha1.RolloutOutcome{
		ID: rollout.ID, Hash: hash, State: v1alpha1.RolloutSucceeded, At: metav1.Now(),
	}
	status.Rollout = nil
	if err := r.patch(ctx, server, before); err != nil || incumbent == nil {
		return ctrl.Result{}, err
	}
	gone := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: server.Namespace, Name: candidateName(server, incumbent.ID),
	}}
	return ctrl.Result{}, client.IgnoreNotFound(r.Delete(ctx, gone))
}

func (r *oldRollout) patch(ctx context.Context, server, before *v1alpha1.MCPServer) error {
	if r.locks {
		return r.Status().Patch(ctx, server, locked(before))
	}
	return r.Status().Patch(ctx, server, client.MergeFrom(before))
}

// hashOf stands for that of content.
func hashOf(image string) string {
	sum := sha256.Sum256([]byte(image))
	return hex.EncodeToString(sum[:])
}

func candidateName(server *v1alpha1.MCPServer, id string) string {
	sum := sha256.Sum256([]byte(id))
	return server.Name + "-" + hex.EncodeToString(sum[:4])
}

// candidateOf is a StatefulSet of one pod that the Pod Security Standard "restricted" lets in.
func candidateOf(server *v1alpha1.MCPServer, id string) *appsv1.StatefulSet {
	name := candidateName(server, id)
	is := map[string]string{"candidate": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: server.Namespace, Name: name,
			Labels: map[string]string{workload.LabelServer: server.Name}, // by which the cache has it
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(server, v1alpha1.SchemeGroupVersion.WithKind("MCPServer")),
			},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: is},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: is},
				Spec: corev1.PodSpec{
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot:   new(true),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{{
						Name: "server", Image: server.Spec.Image,
						SecurityContext: &corev1.SecurityContext{
							AllowPrivilegeEscalation: new(false),
							Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
					}},
				},
			},
		},
	}
}
