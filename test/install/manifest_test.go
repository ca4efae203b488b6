package install

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// One command installs Freehold, kubectl apply --server-side -f install.yaml, and again it changes nothing.
func TestTheManifestInstallsFreehold(t *testing.T) {
	s := kit.NewEnv(t, plane)
	install(s)
	end := operate(s, manifest)
	s.RunProxies()
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo", Namespace: s.Namespace}}
	s.Apply("git", kit.Server("echo", "registry.example.com/echo:1", ""))
	s.AwaitCondition(server, v1alpha1.ConditionReady, metav1.ConditionTrue)

	before := stated(s)
	kubectl(s, "apply", "--server-side", "-f", manifest)
	for name, now := range stated(s) {
		if before[name] != now {
			t.Errorf("the same manifest has changed %s, which was\n%s\nand is\n%s", name, before[name], now)
		}
	}
	s.Delete(server)
	s.AwaitGone(server)
	awaitNoChildren(s)
	takesServersAlong(s)
	end()
	for _, denied := range deniedForGood(s) {
		t.Errorf("the rights of install.yaml do not suffice: %s", denied)
	}
}

// takesServersAlong deletes the CRD while a server is there and the operator runs: the chart keeps
// the CRD, because with it every server goes, and whoever deletes it means that. It ends.
func takesServersAlong(s *kit.Env) {
	s.Helper()
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "last", Namespace: s.Namespace}}
	s.Apply("git", kit.Server("last", "registry.example.com/echo:1", ""))
	s.AwaitCondition(server, v1alpha1.ConditionReady, metav1.ConditionTrue)
	kubectl(s, "delete", "--timeout=180s", "customresourcedefinition", "mcpservers.freehold.dev")
	awaitNoChildren(s)
}

// awaitNoChildren waits until the garbage collector has taken the children of servers that went. It asks which kinds
// there are every 30 seconds, and keeps children of an owner whose kind came and went in between.
func awaitNoChildren(s *kit.Env) {
	s.Helper()
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &appsv1.ReplicaSetList{}, &corev1.ConfigMapList{},
		&corev1.ServiceList{}, &corev1.PodList{},
	} {
		s.AwaitAll(list, fmt.Sprintf("%T is empty", list), func() error {
			if n := meta.LenList(list); n > 0 {
				return fmt.Errorf("%d are left", n)
			}
			return nil
		}, client.HasLabels{workload.LabelServer})
	}
}

// install applies the manifest, and waits as its reader does. All of it goes when the test ends.
func install(s *kit.Env) {
	s.Helper()
	s.Cleanup(func() { uninstalled(s) })
	kubectl(s, "apply", "--server-side", "-f", manifest)
	kubectl(s, "wait", "--for=condition=Established", "--timeout=120s", "-f", crds(s))
	kubectl(s, "--namespace="+kit.SystemNamespace, "rollout", "status", "--timeout=120s", "deployment/freehold-operator")
}

// uninstalled removes what install.yaml installs, which is also what the chart leaves.
func uninstalled(s *kit.Env) {
	s.Helper()
	kubectl(s, "delete", "--ignore-not-found", "--timeout=180s", "-f", manifest)
}

// crds is a file with those of the manifest.
func crds(s *kit.Env) string {
	s.Helper()
	var list []any
	for _, object := range objects(s, manifest) {
		if object.GetKind() == "CustomResourceDefinition" {
			list = append(list, object.Object)
		}
	}
	if len(list) == 0 {
		s.Fatal("install.yaml has no CustomResourceDefinition")
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": list})
	s.Must(err, "writing the CRDs")
	file := s.TempDir() + "/crds.json"
	s.Must(os.WriteFile(file, text, 0o600), "writing the CRDs")
	return file
}

// stated is each object of the manifest without what controllers report about it: its
// status, and the version that changes with that.
func stated(s *kit.Env) map[string]string {
	s.Helper()
	found := map[string]string{}
	for _, object := range objects(s, manifest) {
		have := live(s, object)
		delete(have.Object, "status")
		have.SetResourceVersion("")
		have.SetManagedFields(slices.DeleteFunc(have.GetManagedFields(),
			func(e metav1.ManagedFieldsEntry) bool { return e.Subresource == "status" }))
		text, err := have.MarshalJSON()
		s.Must(err, "reading "+have.GetName())
		found[have.GetKind()+" "+have.GetName()] = string(text)
	}
	return found
}

// deniedForGood is what the API server refused to Freehold's accounts and never let
// them do: a role is known to it some time after it is made.
func deniedForGood(s *kit.Env) []string {
	s.Helper()
	text, err := os.ReadFile(plane.AuditLog)
	s.Must(err, "reading the audit log")
	denied, done := map[string]string{}, 0
	for line := range bytes.Lines(text) {
		var e auditv1.Event
		if json.Unmarshal(line, &e) != nil || e.ObjectRef == nil || e.ResponseStatus == nil {
			continue // the last line may still be being written
		}
		who := e.User.Username
		if e.ImpersonatedUser != nil {
			who = e.ImpersonatedUser.Username
		}
		if !strings.HasPrefix(who, "system:serviceaccount:"+kit.SystemNamespace+":freehold-") {
			continue
		}
		what := fmt.Sprintf("%s may not %s %s.%s/%s in %q", who, e.Verb, e.ObjectRef.Resource, e.ObjectRef.APIGroup,
			e.ObjectRef.Subresource, e.ObjectRef.Namespace)
		switch code := e.ResponseStatus.Code; {
		case code == 403:
			denied[what] = what
		case code < 400:
			delete(denied, what)
			done++
		}
	}
	if done < 20 {
		s.Errorf("the audit log holds %d requests of Freehold", done)
	}
	var found []string
	for what := range denied {
		found = append(found, what)
	}
	slices.Sort(found)
	return found
}
