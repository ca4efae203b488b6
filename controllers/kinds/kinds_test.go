package kinds

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// A field of the kind that an MCPServer has too would else be forgotten in its form.
func TestTheFormHasAllThatBothKindsHave(t *testing.T) {
	text := `{"metadata":{"name":"echo","namespace":"team","uid":"u","generation":3},
		"spec":{"transport":"sse","path":"/p","proxy":{"replicas":2},"oidcConfigRef":{"name":"a"},"authzConfigRef":{"name":"b"},
			"authzConfig":{"policies":[{"name":"c","policy":"d"}]},"suspend":true,"restartedAt":"2026-01-01T00:00:00Z","progressDeadlineSeconds":7},
		"status":{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R","message":""}],
			"workload":{"generation":4,"hash":"h"},"runtime":{"serverUID":"u","generation":4},"url":"http://x"}}`
	var remote v1alpha1.MCPRemoteProxy
	var want v1alpha1.MCPServer
	for _, into := range []any{&remote, &want} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	want.TypeMeta = metav1.TypeMeta{APIVersion: "freehold.dev/v1alpha1", Kind: "MCPRemoteProxy"}
	if diff := cmp.Diff(&want, Form(&remote)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Each field of the kind is in the form, or is its own.
	own := map[string]bool{"url": true, "allowHTTP": true, "allowedNetworks": true, "caBundleRef": true, "headers": true}
	for name := range schemaOf(t, v1alpha1.MCPRemoteProxySpec{
		URL: "u", AllowHTTP: true, AllowedNetworks: []string{"n"}, CABundleRef: &v1alpha1.CABundleReference{}, Headers: []v1alpha1.RemoteHeader{{}},
		Transport: "sse", ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{
			Path: "/p", Proxy: &v1alpha1.ProxySpec{}, OIDCConfigRef: &v1alpha1.OIDCConfigReference{}, AuthzConfigRef: &v1alpha1.LocalReference{},
			AuthzConfig: &v1alpha1.AuthzConfig{}, Suspend: true, RestartedAt: &metav1.Time{Time: time.Unix(1, 0)}, ProgressDeadlineSeconds: new(int32(1)),
		},
	}) {
		if _, both := schemaOf(t, Form(&remote).Spec)[name]; both == own[name] {
			t.Errorf("spec.%s is in the form: %t", name, both)
		}
	}
}

func schemaOf(t *testing.T, spec any) (fields map[string]any) {
	t.Helper()
	data, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

func TestAnObjectIsKnownByItsKey(t *testing.T) {
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo"}}
	remote := Form(&v1alpha1.MCPRemoteProxy{ObjectMeta: metav1.ObjectMeta{Name: "echo"}})
	if Key(server) != "echo" || Key(remote) != "echo.remote" || Of(remote).Backend || !Of(server).Backend {
		t.Errorf("the keys are %s and %s", Key(server), Key(remote))
	}
	if Title("echo") != `MCPServer "echo"` || Title("echo.remote") != `MCPRemoteProxy "echo"` {
		t.Errorf("the titles are %s and %s", Title("echo"), Title("echo.remote"))
	}
	if Form(&v1alpha1.MCPOIDCConfig{}) != nil {
		t.Error("a configuration has a form")
	}
}
