package backend

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// The runner has generation 3, and history has the content that it keeps under 1.
func TestContentIsKeptAtTheHighestRevisionThatIsNotOfLaterContent(t *testing.T) {
	at := func(generation int64, hash string) revision.Revision {
		return revision.Revision{Generation: generation, Hash: hash}
	}
	stored, none := at(1, "stored"), revision.Revision{}
	for name, tc := range map[string]struct {
		set, service revision.Revision
		pods         string // whose content, that which is kept if empty
		want         revision.Revision
		refused      bool
	}{
		"all stands":                        {stored, stored, "", stored, false},
		"nothing does":                      {none, none, "", stored, false},
		"another proxy raised it":           {at(2, "proxy"), stored, "", at(2, "proxy"), false},
		"a Service is ahead of what is new": {none, at(2, "proxy"), "", at(2, "proxy"), false},
		"its number has another hash":       {at(1, "other"), stored, "", at(1, "other"), false},
		"it lost its revision":              {none, stored, "other", stored, false},
		"somebody changed its pods":         {stored, stored, "other", stored, false},
		"later content is in its place":     {at(2, "later"), stored, "later", none, true},
		"the runner's own is":               {at(3, "own"), stored, "own", none, true},
		"it is ahead of the runner":         {at(4, "newer"), stored, "", none, true},
		"a Service is":                      {stored, at(4, "newer"), "", none, true},
	} {
		set, service := &appsv1.StatefulSet{}, &corev1.Service{}
		if tc.pods == "" {
			tc.pods = "kept"
		}
		set.Spec.Template.Annotations = map[string]string{workload.AnnotationBackendHash: tc.pods}
		if tc.set != none {
			set.Annotations = tc.set.Annotations()
		}
		if tc.service != none {
			service.Annotations = tc.service.Annotations()
		}
		got, err := runner(t).keptRevision(slotObjects{statefulSet: set, service: service},
			v1alpha1.BackendContent{Slot: 1, Hash: "kept"}, stored)
		var back *blocked
		if refused := errors.As(err, &back) && back.reason == v1alpha1.ReasonStandingBack; refused != tc.refused ||
			!refused && (got != tc.want || err != nil) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, tc.want)
		}
	}
}

// A runner that keeps nothing any more, since later content is claimed, asks on what gets the calls. What history has
// of other content is forgotten.
func TestWhatServesIsAskedOnByARunnerThatKeepsNothing(t *testing.T) {
	r := runner(t)
	shared := runconfig.RunConfig{Backend: runconfig.Backend{Bridge: &runconfig.Bridge{Shared: true}}}
	r.stored = map[string]runconfig.RunConfig{"a": shared, "before": shared}
	active := v1alpha1.BackendContent{Slot: 1, Hash: "a", Transport: v1alpha1.TransportStdio}
	w := snapshot{owner: server(r, func(s *v1alpha1.MCPServer) {
		s.Status.Active = &v1alpha1.ActiveBackend{BackendContent: active}
	})}
	if err := r.keepAll(t.Context(), w, nil, false); err != nil {
		t.Fatal(err)
	}
	if _, asks := r.asks(active); !asks || len(r.stored) != 1 {
		t.Errorf("it asks: %t, and knows of history %d contents", asks, len(r.stored))
	}
}
