// Package library runs another author's operator, which is made with
// apis/ownership and controllers/apply, on a real API server: the promises of
// docs/library.md, kept for a kind that Freehold does not know.
package library

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi3"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/freehold-dev/freehold/apis/ownership/admission"
	"github.com/freehold-dev/freehold/test/kit"
	"github.com/freehold-dev/freehold/test/library/operator"
)

var (
	plane *kit.Plane
	// requests are what the operator sent.
	requests kit.Requests
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	ctx, cancel := context.WithCancel(context.Background())
	code, ended := 1, make(chan error, 1)
	var err error
	if plane, err = kit.Start(ctx); err == nil {
		if err = start(ctx, ended); err == nil {
			code = m.Run()
			cancel()
			err = <-ended
		}
	}
	cancel()
	if err := errors.Join(err, plane.Stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// start runs the operator as its author would, in a scheme without our kinds.
func start(ctx context.Context, ended chan<- error) error {
	if err := errors.Join(plane.ApplyDir(ctx, "crd"), operator.AddToScheme(plane.Scheme),
		awaitSchema(ctx, operator.GroupVersion, "Page")); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), operator.AddToScheme(scheme)); err != nil {
		return err
	}
	policies, err := admission.Compile(operator.Contract(),
		admission.Options{Product: "Wiki", Namespace: "wiki-system", Page: "the wiki's page"})
	if err != nil {
		return err
	}
	for _, p := range policies {
		if err := errors.Join(plane.Client.Create(ctx, &p.Policy), plane.Client.Create(ctx, &p.Binding)); err != nil {
			return err
		}
	}
	// The identity of the contract; its rights are its author's affair.
	config := plane.As("system:serviceaccount:wiki-system:wiki-operator", "system:masters")
	mgr, err := ctrl.NewManager(requests.Wrap(config), ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	if err := operator.Register(mgr); err != nil {
		return err
	}
	go func() { ended <- mgr.Start(ctx) }()
	return nil
}

// awaitSchema waits until the API server publishes the schema of a kind, which
// it does some time after it took its CRD.
func awaitSchema(ctx context.Context, version schema.GroupVersion, kind string) error {
	ctx, cancel := context.WithTimeout(ctx, kit.Patience)
	defer cancel()
	client, err := discovery.NewDiscoveryClientForConfig(plane.Config)
	if err != nil {
		return err
	}
	for {
		api, err := openapi3.NewRoot(client.OpenAPIV3()).GVSpec(version)
		if err == nil {
			for name := range api.Components.Schemas {
				if strings.HasSuffix(name, "."+kind) {
					return nil
				}
			}
			err = errors.New("it is not among those of its group")
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("waiting for the schema of %s: %w", kind, err)
		}
	}
}

// fixture is an environment with a page on it.
type fixture struct {
	*kit.Env
	page *operator.Page
	html *corev1.ConfigMap
}

// home writes a page as its author does, and waits until it is served.
func home(t *testing.T) *fixture {
	t.Helper()
	d := &fixture{Env: kit.NewEnv(t, plane)}
	d.page = &operator.Page{ObjectMeta: metav1.ObjectMeta{Name: "home"}}
	d.html = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "home-html"}}
	d.write("hello")
	d.shows("hello")
	return d
}

// write changes the text.
func (d *fixture) write(text string) {
	d.Helper()
	d.Apply("author", fmt.Sprintf(`{apiVersion: wiki.example.com/v1, kind: Page, metadata: {name: %s}, spec: {text: %q}}`,
		d.page.Name, text))
}

// shows waits until the text is served, and the status speaks of it.
func (d *fixture) shows(text string) {
	d.Helper()
	d.Await(d.html, "the page has its text", func() error {
		if got, want := d.html.Data["index.html"], "<p>"+text+"</p>"; got != want {
			return fmt.Errorf("it has %q, not %q", got, want)
		}
		return nil
	})
	d.says(metav1.ConditionTrue)
}

// says waits for what Ready says of the page as it is.
func (d *fixture) says(want metav1.ConditionStatus) (message string) {
	d.Helper()
	d.Await(d.page, "the page is ready: "+string(want), func() error {
		for _, c := range d.page.Status.Conditions {
			if c.Type == "Ready" && c.Status == want && c.ObservedGeneration == d.page.Generation {
				message = c.Message
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", d.page.Status.Conditions)
	})
	return message
}

// passes is how often the operator has reconciled.
func (d *fixture) passes() (sum float64) {
	d.Helper()
	families, err := metrics.Registry.Gather()
	d.Must(err, "reading metrics")
	for _, family := range families {
		if family.GetName() == "controller_runtime_reconcile_total" {
			for _, metric := range family.GetMetric() {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// awaitPass waits until the operator has reconciled more often than before.
func (d *fixture) awaitPass(before float64) {
	d.Helper()
	for end := time.Now().Add(d.Patience); d.passes() <= before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			d.Fatalf("no pass within %s", d.Patience)
		}
	}
}
