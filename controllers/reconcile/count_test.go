package reconcile

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	registry "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
)

func TestWhatCameOfAnIntent(t *testing.T) {
	status := func(code int32) error { return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code}} }
	for want, of := range map[string]struct {
		done apply.Outcome
		err  error
	}{
		"unchanged":  {},
		"created":    {done: apply.Outcome{Result: apply.Created}},
		"configured": {done: apply.Outcome{Result: apply.Configured}},
		"conflict":   {err: &apply.Conflict{}},
		"moved":      {err: apply.ErrStale},
		"refused":    {err: status(403)},
		"failed":     {err: status(500)},
	} {
		if got := result(of.done, of.err); got != want {
			t.Errorf("%v is counted as %s, want %s", of, got, want)
		}
		if want == "refused" {
			want = "refused_aside"
		}
		if got := resultAside(of.done, of.err); got != want {
			t.Errorf("aside %v is counted as %s, want %s", of, got, want)
		}
	}
}

func TestHowAPassEnds(t *testing.T) {
	for want, err := range map[string]error{
		"done":    nil,
		"waiting": &apply.Conflict{RequeueAfter: 1},
		"moved":   errors.Join(nil, apply.ErrGone),
		"refused": errors.Join(apply.ErrForeign, apply.ErrStale),
		"failed":  errors.Join(context.DeadlineExceeded, apply.ErrForeign),
		"defect":  &apply.NotGranted{},
	} {
		if got := outcome(err); got != want {
			t.Errorf("%v ends as %s, want %s", err, got, want)
		}
	}
}

func contendedFields(t *testing.T, kind string) float64 {
	t.Helper()
	families, err := registry.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "freehold_contended_fields" && m.GetLabel()[0].GetValue() == kind {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatal("the metric has no series of this kind")
	return 0
}

// Fields in conflict count as long as the last pass over their object met them.
func TestContendedFieldsComeAndGo(t *testing.T) {
	core := NewCore(&apply.Applier{}, nil, Kind{GroupVersionKind: schema.GroupVersionKind{Kind: "Contended"}})
	end := func(name string, going bool, fields ...string) {
		server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n"}}
		if going {
			server.DeletionTimestamp = &metav1.Time{}
		}
		p := &Pass{core: &core, object: server}
		if len(fields) > 0 {
			p.Conflicts = []*apply.Conflict{{Fields: fields}, {Fields: fields[:1]}} // one is told twice
		}
		p.count(nil)
	}
	for i, step := range []struct {
		do   func()
		want float64
	}{
		{func() { end("a", false, "x", "y") }, 2},
		{func() { end("b", false, "x") }, 3},
		{func() { end("a", false, "x") }, 2},
		{func() { end("a", false) }, 1},
		{func() { end("a", false, "x") }, 2},
		{func() { end("a", true, "x") }, 1},
		{func() { _ = core.Gone(types.NamespacedName{Namespace: "n", Name: "b"}, errors.New("timeout")) }, 1},
		{func() {
			_ = core.Gone(types.NamespacedName{Namespace: "n", Name: "b"}, apierrors.NewNotFound(schema.GroupResource{}, "b"))
		}, 0},
	} {
		if step.do(); contendedFields(t, "Contended") != step.want {
			t.Errorf("after step %d %v fields are contended, want %v", i+1, contendedFields(t, "Contended"), step.want)
		}
	}
	if len(core.contended.fields) != 0 {
		t.Errorf("%d objects are remembered though none is contended", len(core.contended.fields))
	}
}
