package ownership

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/test/kit"
)

// server is a story about an MCPServer, by the schema of its CRD.
func server(t *testing.T, name string) *live {
	t.Helper()
	return newLive(t, contract.MCPServer.GroupVersionKind, name)
}

// child is a story about an object of a built-in kind.
func child(t *testing.T, kind ownership.Object, name string) *live {
	t.Helper()
	return newLive(t, kind.GroupVersionKind, name)
}

func newLive(t *testing.T, kind schema.GroupVersionKind, name string) *live {
	t.Helper()
	managers, err := kit.FieldManagersOf(kind)
	if err != nil {
		t.Fatal(err)
	}
	l := &live{T: t, kind: kind, managers: managers, main: managers.Main, status: managers.Status}
	l.object = l.nothing(name)
	return l
}
