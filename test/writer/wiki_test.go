package writer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/freehold-dev/freehold/apis/ownership/admission"
	"github.com/freehold-dev/freehold/test/kit"
	"github.com/freehold-dev/freehold/test/library/operator"
)

// The wiki is another author's operator, made with apis/ownership and controllers/apply: the promises of
// docs/library.md, kept for a kind that Freehold does not know.
const (
	pageHTML   = string(operator.HTML)
	pageStatus = string(operator.Status)
)

// wikiSent are the requests of the wiki's operator.
var wikiSent kit.Requests

// startWiki runs it as its author would, in a scheme without our kinds and under the policies of its contract.
func startWiki(ctx context.Context, _ string) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(plane.ApplyDir(ctx, "../library/crd"), operator.AddToScheme(plane.Scheme),
		clientgoscheme.AddToScheme(scheme), operator.AddToScheme(scheme)); err != nil {
		return err
	}
	policies, err := admission.Compile(operator.Contract(),
		admission.Options{Product: "Wiki", Namespace: "wiki-system", Page: "the wiki's page"})
	if err != nil {
		return err
	}
	for _, p := range policies {
		err = errors.Join(err, plane.Client.Create(ctx, &p.Policy), plane.Client.Create(ctx, &p.Binding))
	}
	// The identity of the contract; its rights are its author's affair.
	config := plane.As("system:serviceaccount:wiki-system:wiki-operator", "system:masters")
	mgr, started := ctrl.NewManager(wikiSent.Wrap(config), ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err = errors.Join(err, started); err != nil {
		return err
	}
	// The API server publishes the schema of a kind some time after it took its CRD.
	for end := time.Now().Add(kit.Patience); ; time.Sleep(50 * time.Millisecond) {
		if err = operator.Register(mgr); err == nil || time.Now().After(end) {
			break
		}
	}
	if err == nil {
		go func() { _ = mgr.Start(ctx) }()
	}
	return err
}

// wiki is an environment with a page on it.
type wiki struct {
	*kit.Env
	page *operator.Page
	html *corev1.ConfigMap
}

// home writes a page as its author does, and waits until it is served.
func home(t *testing.T) *wiki {
	t.Helper()
	w := &wiki{
		Env: kit.NewEnv(t, plane), page: &operator.Page{ObjectMeta: metav1.ObjectMeta{Name: "home"}},
		html: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "home-html"}},
	}
	w.write("hello")
	return w
}

// write changes the text, and waits until it is served and the status speaks of it.
func (w *wiki) write(text string) {
	w.Helper()
	w.Apply("author", fmt.Sprintf(
		`{apiVersion: wiki.example.com/v1, kind: Page, metadata: {name: home}, spec: {text: %q}}`,
		text))
	w.Await(w.html, "the page has its text", func() error {
		if got, want := w.html.Data["index.html"], "<p>"+text+"</p>"; got != want {
			return fmt.Errorf("it has %q, not %q", got, want)
		}
		return nil
	})
	w.Await(w.page, "the page is ready", func() error {
		for _, c := range w.page.Status.Conditions {
			if c.Type == "Ready" && c.Status == metav1.ConditionTrue && c.ObservedGeneration == w.page.Generation {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", w.page.Status.Conditions)
	})
}

// passes is how often the operator has reconciled. No other one runs beside this package's serial tests.
func (w *wiki) passes() (sum float64) {
	w.Helper()
	families, err := metrics.Registry.Gather()
	w.Must(err, "reading metrics")
	for _, family := range families {
		if family.GetName() == "controller_runtime_reconcile_total" {
			for _, metric := range family.GetMetric() {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestWiki_ItsContractHolds(t *testing.T) {
	for _, err := range operator.Contract().Check() {
		t.Error(err)
	}
}

func TestWiki_ItsFieldsAreApplied(t *testing.T) {
	w := home(t)
	w.Owns(w.html, pageHTML, `data["index.html"]`, `metadata.labels["wiki.example.com/page"]`,
		"metadata.ownerReferences[*]")
	w.Owns(w.page, pageStatus, "status.configMap", "status.conditions[type=Ready]")
	w.Owns(w.page, "author", "spec.text")
	if w.page.Status.ConfigMap != "home-html" || !metav1.IsControlledBy(w.html, w.page) {
		t.Errorf("the page is in %q, and the ConfigMap belongs to %v", w.page.Status.ConfigMap, w.html.OwnerReferences)
	}
	writes := wikiSent.Since(0).In(w.Namespace).Writes()
	if others := writes.Where(func(r kit.Request) bool {
		return r.Verb != "apply" || r.Manager != pageHTML && r.Manager != pageStatus
	}); len(others) > 0 {
		t.Errorf("the operator writes otherwise than by apply under its managers: %s", others)
	}
}

// The schema of pages is the API server's own: by it, too, is what did not change left as it is.
func TestWiki_NothingIsWrittenWhereNothingChanged(t *testing.T) {
	w := home(t)
	// Conditions have times of whole seconds: into the next one.
	time.Sleep(time.Second)
	mark := wikiSent.Mark()
	for _, touched := range []client.Object{w.page, w.html, w.page, w.html} {
		before := w.passes()
		w.Patch(touched, "somebody", `{"metadata":{"annotations":{"seen":"`+touched.GetResourceVersion()+`"}}}`)
		for end := time.Now().Add(w.Patience); w.passes() <= before; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no pass within %s", w.Patience)
			}
		}
	}
	w.write("other")
	managers := map[string]int{}
	// A write is seen by a watch before it is counted by who sent it.
	for end := time.Now().Add(kit.Patience); managers[pageStatus] == 0 &&
		time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		clear(managers)
		for _, r := range wikiSent.Since(mark).In(w.Namespace).Writes() {
			managers[r.Manager]++
		}
	}
	if want := map[string]int{pageHTML: 1, pageStatus: 1}; !maps.Equal(managers, want) {
		t.Errorf("writes by manager: %v, want one of each for the one change", managers)
	}
}

// The policies that are compiled from its contract let it work, as every story
// here shows, and nobody else use its names.
func TestWiki_TheAPIServerHoldsItsContract(t *testing.T) {
	s := kit.NewEnv(t, plane)
	var err error
	// Policies are held to some time after they were taken.
	for end := time.Now().Add(s.Patience); err == nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		_, err = s.ApplyErr(pageHTML,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: stolen-html}, data: {index.html: theirs}}`)
	}
	if err == nil || !strings.Contains(err.Error(), "wiki") || !strings.Contains(err.Error(), pageHTML) {
		t.Errorf("somebody else wrote as %s: %v", pageHTML, err)
	}
	s.Apply("somebody", `{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs-html}, data: {index.html: theirs}}`)
}
