package complaints

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// plane has two pages of Events, and a watch.
type plane struct {
	client.WithWatch
	t      *testing.T
	pages  map[string]corev1.EventList
	events *watch.FakeWatcher
}

func (p *plane) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(opts).AsListOptions()
	if asked.Limit == 0 || asked.FieldSelector != selector().String() {
		p.t.Errorf("listed are %d of %q", asked.Limit, asked.FieldSelector)
	}
	page := p.pages[asked.Continue]
	page.DeepCopyInto(into.(*corev1.EventList))
	return nil
}

func (p *plane) Watch(_ context.Context, _ client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	if asked := (&client.ListOptions{}).ApplyOptions(opts).AsListOptions(); asked.FieldSelector != selector().String() ||
		asked.ResourceVersion != "7" {
		p.t.Errorf("watched are %q from %s", asked.FieldSelector, asked.ResourceVersion)
	}
	return p.events, nil
}

func TestEventsComeInPagesAndByAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := corev1.EventList{}, corev1.EventList{}
		first.Continue, first.ResourceVersion, second.ResourceVersion = "more", "7", "7"
		first.Items = []corev1.Event{
			*says("x", "postgres-0", "1", "FailedMount", "x", 0, 0),
			*says("a", "echo-backend-0", "1", "FailedMount", "a", 0, 0),
		}
		second.Items = []corev1.Event{*says("b", "echo-backend-0", "1", "FailedMount", "b", 0, 0)}
		p := &plane{t: t, pages: map[string]corev1.EventList{"": first, "more": second}, events: watch.NewFake()}
		s := &Store{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Watch(ctx, p, nil) }()
		synctest.Wait()
		if got := len(s.Of("ns", "echo")); got != 2 {
			t.Errorf("of two pages %d complaints are kept", got)
		}
		later := says("c", "echo-backend-0", "1", "FailedMount", "c", 0, 0)
		later.ResourceVersion = "8"
		p.events.Add(later)
		p.events.Delete(later)
		later = later.DeepCopy()
		later.Message = "d"
		p.events.Modify(later)
		synctest.Wait()
		if got := shown(s.Of("ns", "echo")); len(got) != 3 || got[2] != "backend echo-backend-0 1 FailedMount : d, 0s to 0s" {
			t.Errorf("kept are %q", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// What the API server sends is less than all warnings of the cluster.
func TestTheAPIServerSelects(t *testing.T) {
	for reason, sent := range map[string]bool{
		"FailedMount": true, "Evicted": true, "Unhealthy": true,
		"FailedScheduling": false, "BackOff": false, "Failed": false,
	} {
		if got := selector().Matches(fields.Set{
			"type": "Warning", "involvedObject.kind": "Pod",
			"reason": reason,
		}); got != sent {
			t.Errorf("%s is sent: %t", reason, got)
		}
	}
	for _, set := range []fields.Set{
		{"type": "Normal", "involvedObject.kind": "Pod"},
		{"type": "Warning", "involvedObject.kind": "Node"},
	} {
		if selector().Matches(set) {
			t.Errorf("%v is sent", set)
		}
	}
}
