package library

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership/admission"
	"github.com/freehold-dev/freehold/apis/ownership/rbac"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
	"github.com/freehold-dev/freehold/test/library/gateway"
)

// A server and a gateway of one name have children of their own, each written by
// its own controller alone, and one goes without the other.
func TestTwoKindsOfOneNameDoNotMeet(t *testing.T) {
	for _, err := range gateway.Contract().Check() {
		t.Fatal(err)
	}
	s := kit.NewEnv(t, plane)
	operate(s)
	echo, gw := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo"}}, &gateway.Gateway{ObjectMeta: metav1.ObjectMeta{Name: "echo"}}
	theirs, proxy := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "echo-proxy"}}, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "echo-proxy-gw"}}
	s.Apply("author", kit.Server("echo", "example.com/echo:1", ""))
	s.Apply("author", "{apiVersion: freehold.dev/v1alpha1, kind: Gateway, metadata: {name: echo}, spec: {}}")
	s.Await(gw, "the gateway is ready", func() error {
		if c := meta.FindStatusCondition(gw.Status.Conditions, "Ready"); c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("it is %v", c)
		}
		return nil
	})
	s.Await(theirs, "the server's proxy has a pod", func() error {
		if theirs.Status.AvailableReplicas == 0 {
			return errors.New("it has none")
		}
		return nil
	})
	s.Read(proxy)
	s.Read(echo)
	s.Owns(proxy, string(gateway.Children), "spec.template", "metadata.ownerReferences[*]")
	s.Owns(theirs, string(contract.MCPServerChildren), "spec.template", "metadata.ownerReferences[*]")
	for key, owner := range map[string]client.Object{"echo": echo, "echo.gw": gw} {
		got := map[string]int{}
		for _, kind := range []string{"v1/ServiceAccount", "v1/ConfigMap", "v1/Service", "apps/v1/Deployment", "rbac.authorization.k8s.io/v1/Role", "rbac.authorization.k8s.io/v1/RoleBinding"} {
			list := &unstructured.UnstructuredList{}
			at := strings.LastIndex(kind, "/")
			list.SetAPIVersion(kind[:at])
			list.SetKind(kind[at+1:] + "List")
			s.Must(s.Client.List(s.Ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{workload.LabelServer: key}), "listing children")
			for i := range list.Items {
				if !metav1.IsControlledBy(&list.Items[i], owner) {
					t.Errorf("%s of %s belongs to %v", list.Items[i].GetName(), key, list.Items[i].GetOwnerReferences())
				}
			}
			got[kind[at+1:]] = len(list.Items)
		}
		if want := map[string]int{"ServiceAccount": 1, "ConfigMap": 0, "Service": 1, "Deployment": 1, "Role": 1, "RoleBinding": 1}; !maps.Equal(got, want) {
			t.Errorf("%s has the children %v, want %v", key, got, want)
		}
	}
	s.Delete(gw)
	s.AwaitGone(proxy)
	if was := theirs.UID; !s.Exists(theirs) || theirs.UID != was || theirs.DeletionTimestamp != nil {
		t.Error("the server's proxy went with the gateway")
	}
	_, err := s.As(kit.SystemNamespace, contract.IdentityMCPServer).ApplyErr(string(gateway.Children), account)
	if err == nil || !strings.Contains(err.Error(), contract.IdentityMCPServer+" belongs to Freehold") {
		t.Errorf("the controller of servers writes as that of gateways: %v", err)
	}
}

const account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: x.gw-runner, labels: {app.kubernetes.io/managed-by: freehold}}}"

// operate installs Freehold, and what its contract makes of a second kind, and
// runs the controllers of both.
func operate(s *kit.Env) {
	s.Helper()
	s.Must(errors.Join(gateway.AddToScheme(plane.Scheme), awaitSchema(s.Ctx, v1alpha1.SchemeGroupVersion, "Gateway"), plane.Install(s.Ctx)), "installing Freehold")
	system, all := s.On(kit.SystemNamespace), gateway.Contract()
	policies, err := admission.Compile(all, contract.Policies())
	s.Must(err, "compiling policies")
	for _, p := range policies {
		text, err := p.YAML()
		s.Must(err, "writing a policy")
		each(string(text), func(document string) { s.Force("kit", document) })
	}
	for _, identity := range []string{gateway.Identity, contract.IdentityRBAC, contract.IdentityOperator} {
		text, err := rbac.YAML(all, identity, kit.SystemNamespace)
		s.Must(err, "writing roles")
		each(string(text), func(document string) {
			kind := system.Force("kit", document).GetKind()
			system.Force("kit", fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: %[1]sBinding, metadata: {name: second-%[2]s}, "+
				"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[1]s, name: %[2]s}, subjects: [{kind: ServiceAccount, name: %[2]s, namespace: %[3]s}]}",
				kind, identity, kit.SystemNamespace))
		})
	}
	// Policies are held to some time after they were taken.
	writer, role := s.As(kit.SystemNamespace, contract.IdentityRBAC), strings.NewReplacer("v1", "rbac.authorization.k8s.io/v1", "ServiceAccount", "Role").Replace(account)
	for end := time.Now().Add(s.Patience); ; time.Sleep(50 * time.Millisecond) {
		if _, err := writer.ApplyErr(string(gateway.Rights), role); err == nil {
			break
		} else if time.Now().After(end) {
			s.Fatal(err)
		}
	}

	api, err := discovery.NewDiscoveryClientForConfig(plane.Config)
	s.Must(err, "building a client")
	spec, err := openapi3.NewRoot(api.OpenAPIV3()).GVSpec(v1alpha1.SchemeGroupVersion)
	s.Must(err, "reading schemas")
	types, err := managedfields.NewTypeConverter(spec.Components.Schemas, false)
	s.Must(err, "reading schemas")
	holds, err := controllers.CacheOptions(plane.OperatorConfig(), []string{s.Namespace})
	s.Must(err, "asking what the cache holds")
	mgr, err := ctrl.NewManager(plane.OperatorConfig(), ctrl.Options{Scheme: plane.Scheme, Cache: holds, Metrics: metricsserver.Options{BindAddress: "0"}})
	s.Must(err, "making a manager")
	applier := apply.New(mgr.GetClient(), mgr.GetAPIReader(), apply.NewConverter(plane.Scheme, map[string]managedfields.TypeConverter{v1alpha1.SchemeGroupVersion.Group: types}), all)
	s.Must(applier.Impersonate(mgr.GetConfig(), kit.SystemNamespace, gateway.Identity, contract.IdentityRBAC), "connecting")
	ctx, cancel := context.WithCancel(context.Background())
	s.Must(errors.Join(
		controllers.Register(ctx, mgr, controllers.Options{IdentityNamespace: kit.SystemNamespace, Workload: podtemplate.Options{RunnerImage: "freehold.dev/runner:test"}}),
		gateway.Register(mgr, applier),
	), "registering controllers")
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	s.Cleanup(func() {
		cancel()
		s.Must(<-ended, "running the operator")
	})
}

// each calls do with the documents of a text.
func each(text string, do func(string)) {
	for document := range strings.SplitSeq(text, "\n---\n") {
		do(document)
	}
}
