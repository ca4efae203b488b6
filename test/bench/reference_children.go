package main

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// child is one of Freehold's of a server: what is stated of it, and that as a whole object.
type child struct {
	intent runtime.ApplyConfiguration
	object client.Object
}

// childrenOf are Freehold's children of a server.
func childrenOf(server *v1alpha1.MCPServer, rendered workload.Rendered, content runconfig.RunConfig) ([]child, error) {
	owner := workload.OwnerOf(server)
	config, err := rendered.ConfigMap(content.Workload.Generation)
	if err != nil {
		return nil, err
	}
	proxy, err := rendered.Proxy(content.Workload.Generation)
	if err != nil {
		return nil, err
	}
	children := []child{
		{workload.ServiceAccount(owner), &corev1.ServiceAccount{}},
		{workload.Role(owner), &rbacv1.Role{}},
		{workload.RoleBinding(owner), &rbacv1.RoleBinding{}},
		{workload.ProxyService(owner, server.Spec.Proxy), &corev1.Service{}},
		{config, &corev1.ConfigMap{}},
		{proxy, &appsv1.Deployment{}},
	}
	for _, c := range children {
		text, err := json.Marshal(c.intent)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, c.object); err != nil {
			return nil, fmt.Errorf("building %T: %w", c.object, err)
		}
	}
	return children, nil
}

// ensure creates a child, or changes what differs in it.
func (r *reference) ensure(ctx context.Context, want client.Object) error {
	have, ok := want.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", want)
	}
	err := r.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		return r.Create(ctx, want)
	}
	for err == nil {
		before, ok := have.DeepCopyObject().(client.Object)
		if !ok || !adopt(have, want) {
			return nil
		}
		if err = r.change(ctx, have, before); !apierrors.IsConflict(err) {
			return err
		}
		err = r.live.Get(ctx, client.ObjectKeyFromObject(want), have)
	}
	return err
}

// adopt puts what is wanted into an object that exists, and reports whether
// that changed it. What others added to maps stays.
func adopt(have, want client.Object) bool {
	labelled := merge(have.GetLabels(), want.GetLabels(), have.SetLabels)
	changed := merge(have.GetAnnotations(), want.GetAnnotations(), have.SetAnnotations) || labelled
	switch want := want.(type) {
	case *appsv1.Deployment:
		// Its content is in its annotations as a hash, which is how a careful
		// operator of this kind avoids to write defaults back and forth.
		if have, ok := have.(*appsv1.Deployment); ok && (changed || *want.Spec.Replicas != *have.Spec.Replicas) {
			have.Spec, changed = want.Spec, true
		}
	case *corev1.Service:
		if have, ok := have.(*corev1.Service); ok && !equality.Semantic.DeepDerivative(want.Spec, have.Spec) {
			have.Spec.Ports, have.Spec.Selector, have.Spec.Type, changed = want.Spec.Ports, want.Spec.Selector, want.Spec.Type,
				true
		}
	case *rbacv1.Role:
		if have, ok := have.(*rbacv1.Role); ok && !equality.Semantic.DeepEqual(want.Rules, have.Rules) {
			have.Rules, changed = want.Rules, true
		}
	}
	return changed
}

func merge(have, want map[string]string, set func(map[string]string)) bool {
	changed := false
	for key, value := range want {
		if have[key] != value {
			if have == nil {
				have = map[string]string{}
			}
			have[key], changed = value, true
		}
	}
	if changed {
		set(have)
	}
	return changed
}

// seen reads what the report is about.
func (r *reference) seen(
	ctx context.Context, server *v1alpha1.MCPServer, proxy *appsv1.Deployment, backend *appsv1.StatefulSet,
) error {
	if err := r.Get(ctx, client.ObjectKey{Namespace: server.Namespace, Name: workload.ProxyName(server.Name)},
		proxy); client.IgnoreNotFound(err) != nil {
		return err
	}
	return client.IgnoreNotFound(r.Get(ctx,
		client.ObjectKey{Namespace: server.Namespace, Name: workload.BackendName(server.Name)}, backend))
}

// scale carries spec.replicas to a backend that has others.
func (r *reference) scale(ctx context.Context, server *v1alpha1.MCPServer, backend *appsv1.StatefulSet) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if backend.Name == "" || *backend.Spec.Replicas == *server.Spec.Replicas {
			return nil
		}
		before := backend.DeepCopy()
		backend.Spec.Replicas = server.Spec.Replicas
		err := r.change(ctx, backend, before)
		if apierrors.IsConflict(err) {
			if e := r.live.Get(ctx, client.ObjectKeyFromObject(before), backend); e != nil {
				return e
			}
		}
		return err
	})
}
