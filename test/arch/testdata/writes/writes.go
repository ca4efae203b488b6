// Package writes is bad input: each way to write past controllers/apply.
package writes

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// embedded hides the client behind a name of its own.
type embedded struct{ client.Client }

func throughControllerRuntime(ctx context.Context, c client.Client, pod *corev1.Pod, ac runtime.ApplyConfiguration) {
	_ = c.Create(ctx, pod)
	_ = c.Status().Patch(ctx, pod, client.MergeFrom(pod))
	_ = c.SubResource("status").Update(ctx, pod)
	_ = c.DeleteAllOf(ctx, pod)
	_ = c.Apply(ctx, ac)
	_, _ = controllerutil.CreateOrUpdate(ctx, c, pod, func() error { return nil })
}

func throughClientGo(ctx context.Context, k kubernetes.Interface, d dynamic.ResourceInterface, r rest.Interface, dep *appsv1.Deployment) {
	_, _ = k.AppsV1().Deployments("").UpdateStatus(ctx, dep, metav1.UpdateOptions{})
	_ = d.Delete(ctx, "", metav1.DeleteOptions{})
	_ = r.Put()
}

func throughAValue(e embedded) any {
	return e.Patch
}

// reads is what everyone may do.
func reads(ctx context.Context, c client.Reader, pod *corev1.Pod) error {
	return c.Get(ctx, client.ObjectKeyFromObject(pod), pod)
}
