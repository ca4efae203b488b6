package apply

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// Each write, and each deletion, goes out as the identity whose it is, under one bound of rate; what is read, and what
// was given to no identity, as the process.
func TestAWriterActsAsItsIdentity(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.Header.Get("Impersonate-User"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"}}`)
	}))
	defer server.Close()
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	var contract ownership.Contract
	for _, identity := range []string{"one", "two", "process"} {
		contract.Grants = append(contract.Grants, ownership.Grant{
			Manager: ownership.Manager(identity + "/x"), Identity: identity, Object: ownership.Object{GroupVersionKind: kind},
			Create: true, Mode: ownership.Exclusive, Fields: ownership.Paths(`data["` + identity + `"]`),
		})
	}
	contract.Removals = []ownership.Removal{{Identity: "two", Object: ownership.Object{GroupVersionKind: kind}}}
	mapper := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(kind, apimeta.RESTScopeNamespace)
	config := &rest.Config{Host: server.URL, RateLimiter: flowcontrol.NewTokenBucketRateLimiter(0.001, 5)}
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	applier := New(c, c, NewConverter(clientgoscheme.Scheme, nil), contract)
	if err := applier.Impersonate(config, "ns", "one", "two"); err != nil {
		t.Fatal(err)
	}
	for _, identity := range []string{"one", "two", "process"} {
		intent := corev1ac.ConfigMap("a", "n").WithData(map[string]string{identity: "a"})
		if _, err := applier.As(ownership.Manager(identity+"/x")).Apply(t.Context(), nil, intent); err != nil {
			t.Fatal(err)
		}
	}
	live := &corev1.ConfigMap{}
	live.Name, live.Namespace = "a", "n"
	if err := applier.As("two/x").Remove(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	if err := applier.As("one/x").Remove(t.Context(), live); err == nil {
		t.Error("another identity's deletion was sent")
	}
	want := []string{
		"PATCH system:serviceaccount:ns:one", "PATCH system:serviceaccount:ns:two", "PATCH ",
		"DELETE system:serviceaccount:ns:two",
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("what was asked differs (-want +got):\n%s", diff)
	}
	if left := config.RateLimiter.TryAccept(); !left || config.RateLimiter.TryAccept() {
		t.Errorf("four requests took not just four of five permits; one is left: %t", left)
	}
}
