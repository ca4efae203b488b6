package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/apply"
)

// Reconciler makes a ConfigMap of each page.
type Reconciler struct {
	reader  client.Reader
	applier *apply.Applier
	now     func() time.Time
}

// Register adds the reconciler to a manager. The schema of pages is the API server's own, so the CRD must be installed.
func Register(mgr ctrl.Manager) error {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	api, err := openapi3.NewRoot(client.OpenAPIV3()).GVSpec(GroupVersion)
	if err != nil {
		return fmt.Errorf("reading the schema of pages: %w", err)
	}
	pages, err := managedfields.NewTypeConverter(api.Components.Schemas, false)
	if err != nil {
		return fmt.Errorf("reading the schema of pages: %w", err)
	}
	converter := apply.NewConverter(mgr.GetScheme(), map[string]managedfields.TypeConverter{GroupVersion.Group: pages})
	r := &Reconciler{
		reader:  mgr.GetClient(),
		applier: apply.New(mgr.GetClient(), mgr.GetAPIReader(), converter, Contract()),
		now:     time.Now,
	}
	return ctrl.NewControllerManagedBy(mgr).For(&Page{}).Owns(&corev1.ConfigMap{}).Complete(r)
}

// Reconcile reads, applies, and reports what came of it.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	page := &Page{}
	if err := r.reader.Get(ctx, request.NamespacedName, page); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	live := &corev1.ConfigMap{}
	err := r.reader.Get(ctx, client.ObjectKey{Namespace: page.Namespace, Name: page.Name + "-html"}, live)
	if apierrors.IsNotFound(err) {
		live = nil // a birth
	} else if err != nil {
		return ctrl.Result{}, err
	}
	_, applied := r.applier.As(HTML).Apply(ctx, live, html(page))
	_, reported := r.applier.As(Status).Apply(ctx, page, status(page, applied, r.now()))
	if err = errors.Join(applied, reported); apply.RetryOf(err) == apply.RetryNow {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: apply.RetryDelay(err)}, nil
}

// html states the ConfigMap of a page, and whose it is.
func html(page *Page) *corev1ac.ConfigMapApplyConfiguration {
	owner := metav1ac.OwnerReference().
		WithAPIVersion(GroupVersion.String()).WithKind("Page").WithName(page.Name).WithUID(page.UID).
		WithController(true).WithBlockOwnerDeletion(true)
	return corev1ac.ConfigMap(page.Name+"-html", page.Namespace).
		WithLabels(map[string]string{"wiki.example.com/page": page.Name}).
		WithOwnerReferences(owner).
		WithData(map[string]string{"index.html": "<p>" + page.Spec.Text + "</p>"})
}

// status states all that the operator says of a page, each time.
func status(page *Page, applied error, now time.Time) *pageIntent {
	ready := metav1ac.Condition().WithType("Ready").WithObservedGeneration(page.Generation).
		WithStatus(metav1.ConditionTrue).WithReason("Applied").WithMessage("")
	name := page.Name + "-html"
	intent := &pageIntent{Status: statusIntent{ConfigMap: &name}}
	if applied != nil {
		ready.WithStatus(metav1.ConditionFalse).WithReason("ApplyFailed").WithMessage(message(applied))
		intent.Status.ConfigMap = nil // given up
	}
	// The time of a condition moves with its status, else each pass would write.
	since := metav1.NewTime(now.UTC().Truncate(time.Second))
	if last := meta.FindStatusCondition(page.Status.Conditions, "Ready"); last != nil && last.Status == *ready.Status {
		since = last.LastTransitionTime
	}
	intent.Status.Conditions = append(intent.Status.Conditions, ready.WithLastTransitionTime(since))
	intent.WithAPIVersion(GroupVersion.String()).WithKind("Page")
	intent.ObjectMetaApplyConfiguration = metav1ac.ObjectMeta().WithName(page.Name).WithNamespace(page.Namespace)
	return intent
}

// message says what went wrong in words that stay while it does: each change of one is a write.
func message(applied error) string {
	if conflicts := apply.Conflicts(applied); conflicts != nil {
		return conflicts[0].String()
	}
	return applied.Error()
}
