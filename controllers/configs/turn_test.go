package configs

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/reconcile"
)

// parts is a cache that holds every object in part, and the API server behind it, where each
// is gone when it is asked for the third time. It notes who asks.
type parts struct {
	client.Reader
	live  bool
	fails error
	asked map[string]int
}

func (p *parts) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	obj.SetName(key.Name)
	obj.SetNamespace(key.Namespace)
	if !p.live {
		reconcile.Cut(obj, "digest")
		return nil
	}
	if p.asked[key.Name]++; p.asked[key.Name] < 3 {
		return p.fails
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// Of many large configurations of one namespace each is read, whatever the passes over
// them end with: a pass without the turn comes back, and one with it gives it back.
func TestEachLargeConfigurationIsRead(t *testing.T) {
	for _, kind := range registry.All() {
		live := &parts{live: true, asked: map[string]int{}, fails: errors.New("the API server is away")}
		r := New(kind, &parts{}, live, &apply.Applier{}, nil)
		now := time.Unix(1000, 0)
		r.Now = func() time.Time { return now }
		if r.Large.Take("elsewhere", "other", now) != 0 {
			t.Fatal("the turn is not free")
		}
		due := map[string]time.Time{}
		for i := range 20 {
			due[fmt.Sprintf("c%02d", i)] = now
		}
		for range 5000 {
			for name, at := range due {
				if at.After(now) {
					continue
				}
				result, err := r.Reconcile(t.Context(),
					ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "a", Name: name}})
				switch {
				case err != nil:
					due[name] = now.Add(time.Second)
				case result.RequeueAfter > 0:
					due[name] = now.Add(result.RequeueAfter)
				case live.asked[name] == 3:
					delete(due, name)
				default:
					t.Fatalf("%s: a pass over %s ends with no turn, and nothing wakes it", kind.Row().Object.Kind, name)
				}
			}
			if now = now.Add(10 * time.Millisecond); now.Equal(time.Unix(1002, 0)) {
				if len(live.asked) > 0 {
					t.Fatal("two objects are read at once")
				}
				r.Large.Leave()
			}
		}
		if len(due) > 0 || r.Large.Take("elsewhere", "other", now) != 0 {
			t.Errorf("%s: after 50 s %d of 20 are not read, or the turn is not free", kind.Row().Object.Kind, len(due))
		}
	}
}
