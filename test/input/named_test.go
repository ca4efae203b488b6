package input

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// What the API server lets in and the operator cannot make pods of is named in the words of the row.
func TestTheRendererNames(t *testing.T) {
	for _, subject := range judged() {
		for _, row := range subject.rows {
			t.Run(subject.title+", "+row.mistake, func(t *testing.T) {
				server := &v1alpha1.MCPServer{}
				must(t, yaml.Unmarshal([]byte(row.text("echo")), server), "reading the row")
				release := podtemplate.Release{RunnerImage: "freehold.dev/runner:test"}
				got := workload.Render(workload.Input{Object: server}, release).Problems.Error()
				// A condition has the first of many.
				want, cut := strings.CutSuffix(row.field+": "+row.says, "; and more: correct these first")
				if got != want && (!cut || !strings.HasPrefix(got, want)) {
					t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
				}
			})
		}
	}
}

// A condition names it, of a row of each subject. A new server then has no objects at all; of one
// that runs nothing moves, and its status says which content runs.
func TestTheOperatorNames(t *testing.T) {
	t.Parallel()
	running := runningServer(t, guarded)
	k := newKubectl(running.Env)
	claimed := *running.server.Status.Workload
	running.server.ManagedFields = nil
	before := running.Versions()
	for i, subject := range judged() {
		t.Run(subject.title, func(t *testing.T) {
			for _, row := range subject.rows[1:] {
				must(t, k.couldCreate(row.text("other")), row.mistake+": creating it")
			}
			name, row := fmt.Sprint("bad-", i), subject.rows[0]
			must(t, k.create(row.text(name)), "creating it")
			must(t, k.apply(running.name, row.text(running.name)), "applying it to a running server")
			running.says(t, name, row, "Nothing runs before that")
			live := running.says(t, running.name, row, "The last accepted content keeps running")
			if diff := cmp.Diff(&claimed, live.Status.Workload); diff != "" {
				t.Errorf("what runs by the status (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(running.server.Status.URL, live.Status.URL); diff != "" {
				t.Errorf("the URL (-before +after):\n%s", diff)
			}
			running.onlyServersMoved(t, before)
		})
	}
	// The same content again is no new content.
	must(t, k.apply(running.name, kit.Server(running.name, goodImage, guarded)), "correcting it")
	running.rest()
	running.onlyServersMoved(t, before)
}

func must(t *testing.T, err error, doing string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", doing, err)
	}
}

// says waits until Accepted and Ready say what the row says of the spec that stands, and what runs.
func (r *runningEnv) says(t *testing.T, name string, row row, runs string) *v1alpha1.MCPServer {
	t.Helper()
	s := *r.Env
	s.TB = t
	live := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Await(live, "the operator has judged "+name, func() error {
		for _, of := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionReady, v1alpha1.ConditionStalled} {
			c := meta.FindStatusCondition(live.Status.Conditions, of)
			if c == nil || c.ObservedGeneration != live.Generation || c.Reason != v1alpha1.ReasonSpecInvalid {
				return fmt.Errorf("%s of generation %d is %+v", of, live.Generation, c)
			}
		}
		return nil
	})
	want := row.field + ": " + row.says + ". " + runs
	for _, of := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionReady} {
		if c := meta.FindStatusCondition(live.Status.Conditions, of); c.Message != want || c.Status != metav1.ConditionFalse {
			t.Errorf("%s of %s is %s (-want +got):\n%s", of, name, c.Status, cmp.Diff(want, c.Message))
		}
	}
	return live
}

// onlyServersMoved demands that no object but MCPServers moved, came or went.
func (r *runningEnv) onlyServersMoved(t *testing.T, before kit.Versions) {
	t.Helper()
	for _, moved := range before.Moved(r.Versions()) {
		if !strings.HasPrefix(moved, "MCPServer/") {
			t.Error(moved)
		}
	}
}

// judged are all rows about what only the operator can judge.
func judged() []subject { return slices.Concat(namedRows, templateRows) }
