package mcpserver

import (
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/controllers/reconcile"
)

// A large object that lost its controller is cut in the cache, and can be taken over
// all the same: what stands is read from the API server.
func TestWhatTheCacheCutsIsReadLive(t *testing.T) {
	server := echo()
	stub := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "echo-backend"}}
	reconcile.Cut(stub, "")
	whole := controlled(backendOf(current), server)
	for name, tc := range map[string]struct {
		cached *appsv1.StatefulSet
		live   cached
		want   *appsv1.StatefulSet
		fails  bool
	}{
		"whole":                 {whole, cached{failing: "echo-backend"}, whole, false},
		"cut":                   {stub, cached{backend: whole}, whole, false},
		"cut, and gone by now":  {stub, cached{}, nil, false},
		"cut, and not readable": {stub, cached{failing: "echo-backend"}, nil, true},
	} {
		s, err := readWith(t, cached{backend: tc.cached}, tc.live, server)
		if (err != nil) != tc.fails {
			t.Errorf("%s: it ends with %v", name, err)
		}
		if err == nil && (!reflect.DeepEqual(s.Backend().Live, tc.want) || s.Backend().Ours() != (tc.want != nil)) {
			t.Errorf("%s: it sees %+v", name, s.Backend().Live)
		}
	}
}
