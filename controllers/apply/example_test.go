package apply_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/apply"
)

// About is the field manager of an operator that says in each namespace whose it is.
const About ownership.Manager = "namespace.teams.example.com/about"

// Contract says that it writes one key of one ConfigMap.
func Contract() ownership.Contract {
	return ownership.Contract{Grants: []ownership.Grant{{
		Manager: About, Identity: "teams-operator", Mode: ownership.Exclusive, Create: true,
		Object: ownership.Object{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap")},
		Names:  []string{"about"},
		Fields: ownership.Paths("data.team"),
		Why:    "says whose the namespace is",
	}}}
}

// Teams is its reconciler.
type Teams struct {
	reader  client.Reader
	applier *apply.Applier
}

// Reconcile is a pass: it reads, and states what it owns.
func (t *Teams) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	namespace := &corev1.Namespace{}
	if err := t.reader.Get(ctx, request.NamespacedName, namespace); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	live := &corev1.ConfigMap{}
	err := t.reader.Get(ctx, client.ObjectKey{Namespace: namespace.Name, Name: "about"}, live)
	if apierrors.IsNotFound(err) {
		live = nil // a create
	} else if err != nil {
		return ctrl.Result{}, err
	}
	intent := corev1ac.ConfigMap("about", namespace.Name).WithData(map[string]string{"team": namespace.Labels["team"]})
	_, err = t.applier.As(About).Apply(ctx, live, intent)
	if errors.Is(err, apply.ErrNamespaceTerminating) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, err
}

// An operator for built-in kinds, whole. It sends one request for a namespace that is new or has changed hands, and
// none for all others, however often it is started.
func Example() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		panic(err)
	}
	converter := apply.NewConverter(mgr.GetScheme(), nil)
	teams := &Teams{
		reader:  mgr.GetClient(),
		applier: apply.New(mgr.GetClient(), mgr.GetAPIReader(), converter, Contract()),
	}
	if err := ctrl.NewControllerManagedBy(mgr).For(&corev1.Namespace{}).Complete(teams); err != nil {
		panic(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		panic(err)
	}
}

// What is outside of the contract is refused before anything is sent, here where there is nobody to send it to.
func ExampleWriter_Apply() {
	applier := apply.New(nil, nil, apply.NewConverter(clientgoscheme.Scheme, nil), Contract())
	_, err := applier.As(About).Apply(context.Background(), nil,
		corev1ac.ConfigMap("about", "default").WithData(map[string]string{"team": "red", "phone": "555"}))
	fmt.Println(strings.ReplaceAll(err.Error(), ": ", "\n"))

	var refused *apply.NotGranted
	fmt.Println(errors.As(err, &refused), refused.Fields)

	_, err = applier.As(About).Apply(context.Background(), nil,
		corev1ac.Secret("about", "default").WithStringData(map[string]string{"team": "red"}))
	fmt.Println(strings.ReplaceAll(err.Error(), ": ", "\n"))
	// Output:
	// applying ConfigMap default/about as namespace.teams.example.com/about
	// manager namespace.teams.example.com/about may not write .data.phone of ConfigMap
	// true [.data.phone]
	// applying Secret default/about as namespace.teams.example.com/about
	// manager namespace.teams.example.com/about has no grant on Secret about
}
