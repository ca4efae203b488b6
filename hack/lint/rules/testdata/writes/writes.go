// Package writes is bad input: each way to write past controllers/apply.
package writes

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	. "sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// embedded hides the client behind a name of its own.
type embedded struct{ client.Client }

// patcher hides it behind an interface.
type patcher interface{ client.Writer }

func throughControllerRuntime(
	ctx context.Context, c client.Client, pod *corev1.Pod, ac, status runtime.ApplyConfiguration) {
	// want `Create of sigs.k8s.io/controller-runtime/pkg/client writes`
	_ = c.Create(ctx, pod)
	_ = c.Update(ctx, pod)                                // want `Update of`
	_ = c.Status().Patch(ctx, pod, client.MergeFrom(pod)) // want `Patch of`
	_ = c.SubResource("status").Update(ctx, pod)          // want `Update of`
	_ = c.Status().Apply(ctx, status)                     // want `Apply of`
	_ = c.Delete(ctx, pod)                                // want `Delete of`
	_ = c.DeleteAllOf(ctx, pod)                           // want `DeleteAllOf of`
	// want `Apply of sigs.k8s.io/controller-runtime/pkg/client writes .*, and only controllers/apply may: state an intent`
	_ = c.Apply(ctx, ac)
	// want `CreateOrUpdate of .*: get, compare and update takes the fields of others`
	_, _ = CreateOrUpdate(ctx, c, pod, func() error { return nil })
	AddFinalizer(pod, "x") // want `a finalizer is an intent of its own manager`
}

func throughClientGo(
	ctx context.Context, k kubernetes.Interface, d dynamic.ResourceInterface, r rest.Interface, dep *appsv1.Deployment) {
	// want `UpdateStatus of k8s.io/client-go/kubernetes/typed/apps/v1`
	_, _ = k.AppsV1().Deployments("").UpdateStatus(ctx, dep, metav1.UpdateOptions{})
	_, _ = k.AppsV1().Deployments("").Apply(ctx, appsv1ac.Deployment("", ""), metav1.ApplyOptions{}) // want `Apply of`
	_ = k.CoreV1().Pods("").EvictV1(ctx, nil)                                                        // want `EvictV1 of`
	// want `Delete of k8s.io/client-go/dynamic`
	_ = d.Delete(ctx, "", metav1.DeleteOptions{})
	_, _ = d.Apply(ctx, "", nil, metav1.ApplyOptions{}) // want `Apply of k8s.io/client-go/dynamic`
	_ = r.Put()                                         // want `Put of k8s.io/client-go/rest`
}

func throughAValue(e embedded, p patcher) (any, any, any) {
	return e.Patch, // want `Patch of`
		p.Update, // want `Update of`
		client.Client.Create // want `Create of`
}

// reads is what everyone may do.
func reads(ctx context.Context, c client.Client, k kubernetes.Interface, pod *corev1.Pod) error {
	if _, err := k.AppsV1().Deployments("").List(ctx, metav1.ListOptions{}); err != nil {
		return err
	}
	return c.Get(ctx, client.ObjectKeyFromObject(pod), pod)
}

// asks is what stores nothing, though it is sent as a create.
func asks(ctx context.Context, k kubernetes.Interface) error {
	if _, err := k.AuthenticationV1().TokenReviews().Create(ctx, nil, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := k.AuthorizationV1().SubjectAccessReviews().Create(ctx, nil, metav1.CreateOptions{})
	return err
}

// table has verbs of its own.
type table map[string]string

func (t table) Delete(key string) { delete(t, key) }
func (t table) Apply(key string)  { t.Delete(key) }
