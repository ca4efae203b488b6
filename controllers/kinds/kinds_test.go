package kinds

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
)

func TestAnObjectIsKnownByItsKey(t *testing.T) {
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo"}}
	remote := &v1alpha1.MCPRemoteProxy{ObjectMeta: metav1.ObjectMeta{Name: "echo"}}
	if Key(server) != "echo" || Key(remote) != "echo.remote" || Of(remote).Backend || !Of(server).Backend {
		t.Errorf("the keys are %s and %s", Key(server), Key(remote))
	}
	if Title("echo") != `MCPServer "echo"` || Title("echo.remote") != `MCPRemoteProxy "echo"` {
		t.Errorf("the titles are %s and %s", Title("echo"), Title("echo.remote"))
	}
}

// The Go type says the kind, whatever the object says of itself.
func TestTheKindIsThatOfTheGoType(t *testing.T) {
	server := &v1alpha1.MCPServer{TypeMeta: metav1.TypeMeta{Kind: RemoteProxies().Object.Kind}}
	if got := Of(server).Object.Kind; got != Servers().Object.Kind {
		t.Errorf("an object of the Go type MCPServer is an %s", got)
	}
}

// What a client has read has no TypeMeta, and what a file held has.
func TestAnIntentAboutTheStatusIsOfTheKind(t *testing.T) {
	for _, kind := range All() {
		object := kind.New()
		object.SetName("echo")
		object.SetNamespace("team")
		text, err := json.Marshal(Status(object, v1alpha1ac.ProxyWorkloadStatus().WithURL("http://x")))
		if err != nil {
			t.Fatal(err)
		}
		want := `{"kind":"` + kind.Object.Kind +
			`","apiVersion":"freehold.dev/v1alpha1","metadata":{"name":"echo","namespace":"team"},"status":{"url":"http://x"}}`
		if string(text) != want {
			t.Errorf("got %s, want %s", text, want)
		}
	}
}

func TestItemsAreThoseOfTheList(t *testing.T) {
	for _, kind := range All() {
		list := kind.NewList()
		if err := json.Unmarshal([]byte(
			`{"items":[{"metadata":{"name":"a"},"spec":{"suspend":true}},{"metadata":{"name":"b"}}]}`), list); err != nil {
			t.Fatal(err)
		}
		items := Items(list)
		if len(items) != 2 || Of(items[0]).Object.Kind != kind.Object.Kind || items[1].GetName() != "b" ||
			BackendReplicas(items[0]) != 0 || BackendReplicas(items[1]) != 1 {
			t.Errorf("%s: the items are %v", kind.Object.Kind, items)
		}
	}
}
