package apply

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/freehold-dev/freehold/apis/contract"
)

var noon = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

func TestAConflictIsToldInOneSentence(t *testing.T) {
	c := &Conflict{
		Object: contract.Service, Key: types.NamespacedName{Namespace: "ns", Name: "echo-proxy"},
		Fields: []string{".spec.type"}, Others: []string{"kubectl"}, RequeueAfter: 59400 * time.Millisecond,
	}
	if got, want := c.String(), `field manager "kubectl" overwrites .spec.type of Service echo-proxy`; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	c.Fields, c.Others = []string{".a", ".b", ".c", ".d", ".e"}, nil
	if got, want := c.Error(), "field conflict: another writer removes .a, .b, .c and 2 more of Service echo-proxy "+
		"again and again; the next repair is in 59s"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}
