package kit

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// Operate runs Freehold's operator for the test's namespace in this process, until the test ends. After Install it has
// the identity and the rights of the chart, else those of the administrator. With the pods that the kit pretends to
// run, and with RunProxies, servers get Ready. It needs kube-controller-manager, which a plane that is Alone lacks.
func (s *Env) Operate() {
	s.Helper()
	if s.alone {
		s.Fatalf("nobody makes pods for Deployments on a control plane that is Alone: start it with " +
			"kube-controller-manager, or use PretendReady")
	}
	scheme, err := controllers.NewScheme()
	s.Must(err, "building the operator's scheme")
	options := controllers.Options{
		Namespaces: []string{s.Namespace},
		Workload:   podtemplate.Release{RunnerImage: "freehold.dev/runner:test"}, SkipNameValidation: true,
		AskProxy: s.AskProxy,
	}
	config := s.Config
	if s.operator != nil {
		config, options.IdentityNamespace = s.OperatorConfig(), SystemNamespace
	}
	cache, err := controllers.CacheOptions(config, []string{s.Namespace})
	s.Must(err, "configuring the operator's cache")
	mgr, err := ctrl.NewManager(config, manager.Options{
		Scheme: scheme, Cache: cache,
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Client: client.Options{Cache: &client.CacheOptions{}},
	})
	s.Must(err, "building the operator")
	ctx, cancel := context.WithCancel(context.Background())
	s.Must(controllers.Register(ctx, mgr, options), "registering the controllers")
	var done sync.WaitGroup
	done.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			s.Errorf("the operator ended with %v", err)
		}
	})
	s.Cleanup(func() { cancel(); done.Wait() })
}

// PretendReady reports of a server what the operator reports once it is Ready: the condition for its present
// generation, and its address, under the operator's field managers. For tests in which no operator runs.
func (s *Env) PretendReady(name string) {
	s.Helper()
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Read(server)
	operator := s
	if s.operator != nil { // then policies hold the managers to their identity
		operator = s.AsController()
	}
	header := fmt.Sprintf("apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: %s}\n", name)
	operator.ApplyStatus(string(contract.MCPServerConditions), header+fmt.Sprintf(`status:
  observedGeneration: %d
  conditions:
  - {type: Ready, status: "True", reason: Ready, message: the kit says so, observedGeneration: %[1]d, lastTransitionTime: "2026-01-01T00:00:00Z"}
`, server.Generation))
	operator.ApplyStatus(string(contract.MCPServerAddress),
		header+fmt.Sprintf("status: {url: \"http://%s-proxy.%s.svc:8000/mcp\"}\n", name, s.Namespace))
}

// NobodyBut fails the test if another manager than these owns something at path,
// in the notation of ownership.Path. Without managers nobody may.
func (s *Env) NobodyBut(object client.Object, path string, managers ...string) {
	s.Helper()
	live := s.Unstructured(object)
	for _, owner := range s.owners(live.GetManagedFields(), path) {
		if !slices.Contains(managers, owner) {
			s.Fatalf("%s of %s is owned by %q, want nobody but %q\n%s", path, s.Title(object), owner, managers,
				Owners(live.GetManagedFields()))
		}
	}
}

// AwaitCondition waits until an object has a condition with a status, for its
// present generation where the condition says one, and returns it.
func (s *Env) AwaitCondition(object client.Object, name string, want metav1.ConditionStatus) metav1.Condition {
	s.Helper()
	var found metav1.Condition
	s.Await(object, fmt.Sprintf("%s of %s is %s", name, s.Title(object), want), func() error {
		conditions, err := conditionsOf(object)
		if err != nil {
			return err
		}
		is := meta.FindStatusCondition(conditions, name)
		switch {
		case is == nil:
			return fmt.Errorf("there is no condition %s", name)
		case is.ObservedGeneration != 0 && is.ObservedGeneration != object.GetGeneration():
			return fmt.Errorf("%s is of generation %d, the object of %d", name, is.ObservedGeneration, object.GetGeneration())
		case is.Status != want:
			return fmt.Errorf("%s is %s, %s: %s", name, is.Status, is.Reason, is.Message)
		}
		found = *is
		return nil
	})
	return found
}

func conditionsOf(object client.Object) ([]metav1.Condition, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("reading the conditions: %w", err)
	}
	list, _, err := unstructured.NestedSlice(fields, "status", "conditions")
	if err != nil {
		return nil, fmt.Errorf("reading the conditions: %w", err)
	}
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"conditions": list},
		&status); err != nil {
		return nil, fmt.Errorf("reading the conditions: %w", err)
	}
	return status.Conditions, nil
}

// AtMost fails the test if there are more requests than n; doing says during what. The failure lists them.
func (l Log) AtMost(s *Env, n int, doing string) {
	s.Helper()
	if len(l) > n {
		s.Fatalf("%s: at most %d requests were to be sent, and there are %s", doing, n, l)
	}
}

// makeServiceAccount stands in for kube-controller-manager, which makes the account without which no pod is admitted.
func (s *Env) makeServiceAccount(namespace string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace}}
	return s.Client.Create(s.Ctx, account)
}
