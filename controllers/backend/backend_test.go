package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// runner has generation 3 of server echo.
func runner(t *testing.T) *Runner {
	t.Helper()
	run := runconfig.RunConfig{
		Version: runconfig.Version,
		Server:  runconfig.Server{Namespace: "team", Name: "echo", UID: "u1"},
		Backend: runconfig.Backend{Image: "echo:1", Port: 8080, Path: "/mcp", Transport: "streamable-http"},
		Proxy:   runconfig.Proxy{Port: 8000, Path: "/mcp"}, Rendering: runconfig.Rendering{Proxy: "p", Backend: "b"},
	}
	hash, err := run.ContentHash()
	if err != nil {
		t.Fatal(err)
	}
	run.Workload = runconfig.Workload{Generation: 3, Hash: hash}
	r := &Runner{Run: run, Now: func() time.Time { return time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC) }}
	r.Env, r.content = r.mine(), "b"
	return r
}

// server is the MCPServer of runner, whose generation 3 is claimed.
func server(r *Runner, edit func(*v1alpha1.MCPServer)) *v1alpha1.MCPServer {
	s := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "echo", UID: "u1", Generation: 9}}
	s.Status.Workload = &v1alpha1.WorkloadStatus{Generation: 3, Hash: r.mine().Hash}
	if edit != nil {
		edit(s)
	}
	return s
}

func TestIdle(t *testing.T) {
	r := runner(t)
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.MCPServer)
		want string
	}{
		"claimed":           {nil, ""},
		"reported":          {func(s *v1alpha1.MCPServer) { s.Status.Runtime = &v1alpha1.RuntimeStatus{Generation: 3} }, ""},
		"an older reported": {func(s *v1alpha1.MCPServer) { s.Status.Runtime = &v1alpha1.RuntimeStatus{Generation: 2} }, ""},
		"a newer is claimed": {func(s *v1alpha1.MCPServer) {
			s.Status.Workload = &v1alpha1.WorkloadStatus{Generation: 4, Hash: "x"}
		}, ""},
		"a newer reported": {
			func(s *v1alpha1.MCPServer) { s.Status.Runtime = &v1alpha1.RuntimeStatus{Generation: 4} },
			"workload generation 4 has reported, ours is 3",
		},
		"claimed for other content": {
			func(s *v1alpha1.MCPServer) { s.Status.Workload.Hash = "x" }, "workload generation 3 was claimed for other content",
		},
		"not claimed yet": {
			func(s *v1alpha1.MCPServer) { s.Status.Workload.Generation = 2 },
			"status.workload of the MCPServer does not know workload generation 3",
		},
		"the claim was lost": {
			func(s *v1alpha1.MCPServer) { s.Status.Workload = nil },
			"status.workload of the MCPServer does not know workload generation 3",
		},
		"suspended": {func(s *v1alpha1.MCPServer) { s.Spec.Suspend = true }, "the MCPServer is suspended"},
		"deleting": {
			func(s *v1alpha1.MCPServer) { s.DeletionTimestamp = new(metav1.Now()) },
			"the MCPServer is being deleted",
		},
		"another": {func(s *v1alpha1.MCPServer) { s.UID = "u2" }, "the MCPServer is another one of the same name"},
	} {
		if got := r.skipReason(snapshot{owner: server(r, tc.edit)}); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	if got := r.skipReason(snapshot{}); got != "the MCPServer is gone" {
		t.Errorf("gone: got %q", got)
	}
}

func TestDisagreement(t *testing.T) {
	for name, edit := range map[string]func(*Runner){
		"no environment":          func(r *Runner) { r.Env, r.EnvErr = revision.Revision{}, errors.New("not set") },
		"an error and a revision": func(r *Runner) { r.EnvErr = errors.New("not set") },
		"an empty revision":       func(r *Runner) { r.Env = revision.Revision{} },
		"both empty":              func(r *Runner) { r.Env, r.Run.Workload = revision.Revision{}, runconfig.Workload{} },
		"another number":          func(r *Runner) { r.Env.Generation = 2 },
		"another hash":            func(r *Runner) { r.Env.Hash = "x" },
		"other content":           func(r *Runner) { r.Run.Backend.Image = "x" },
	} {
		r := runner(t)
		if err := r.Disagreement(); err != nil {
			t.Fatal(err)
		}
		edit(r)
		if r.Disagreement() == nil {
			t.Errorf("%s: they agree", name)
		}
		// Without clients a pass that read or wrote anything would panic.
		if report, err := r.Pass(t.Context()); err != nil || report.Waiting == "" {
			t.Errorf("%s: got %+v, %v", name, report, err)
		}
	}
}

func TestFactsThatAreReported(t *testing.T) {
	learned, stands := Facts{Tools: new(int32(1))}, &v1alpha1.RuntimeStatus{
		ServerUID: "u1", Generation: 3, Server: &v1alpha1.ServerInfo{Name: "n", Version: "v"},
		ProtocolVersions: []string{"2025-11-25"}, Tools: new(int32(2)), Resources: new(int32(0)),
	}
	bare := v1alpha1ac.RuntimeStatus().WithServerUID("u1").WithGeneration(3).WithBackendHash("b")
	mine := v1alpha1ac.RuntimeStatus().WithServerUID("u1").WithGeneration(3).WithBackendHash("b").WithTools(1)
	theirs := v1alpha1ac.RuntimeStatus().WithServerUID("u1").WithGeneration(3).WithBackendHash("b").WithTools(2).
		WithResources(0).WithProtocolVersions("2025-11-25").
		WithServer(v1alpha1ac.ServerInfo().WithName("n").WithVersion("v"))
	for name, tc := range map[string]struct {
		runtime *v1alpha1.RuntimeStatus
		learn   bool
		told    bool
		want    *v1alpha1ac.RuntimeStatusApplyConfiguration
	}{
		"nothing is known":                  {nil, false, false, bare},
		"a replica's stand":                 {stands, false, false, theirs},
		"ours are news":                     {stands, true, false, mine},
		"ours were told, a replica's stand": {stands, true, true, theirs},
		"ours were told, and erased":        {&v1alpha1.RuntimeStatus{ServerUID: "u1", Generation: 3}, true, true, mine},
		"an older generation's stand": {
			&v1alpha1.RuntimeStatus{ServerUID: "u1", Generation: 2, Tools: new(int32(7))},
			false, false, bare,
		},
		"an older generation's stand, of the same content": {
			&v1alpha1.RuntimeStatus{ServerUID: "u1", Generation: 2, BackendHash: "b", Tools: new(int32(1))},
			false, false, mine,
		},
		"those of other content": {
			&v1alpha1.RuntimeStatus{ServerUID: "u1", Generation: 2, BackendHash: "a", Tools: new(int32(7))},
			false, false, bare,
		},
		"those of an earlier server": {
			&v1alpha1.RuntimeStatus{ServerUID: "u0", Generation: 3, Tools: new(int32(7))},
			false, false, bare,
		},
		"told of an older one, now of this": {
			&v1alpha1.RuntimeStatus{ServerUID: "u1", Generation: 2, Tools: new(int32(7))},
			true, true, mine,
		},
		"nothing is known, and nothing is up": {&v1alpha1.RuntimeStatus{ServerUID: "u1", Generation: 3}, false, false, bare},
	} {
		r := runner(t)
		if tc.learn {
			r.Learn(learned)
		}
		if tc.told {
			r.pendingReport = false
		}
		of := server(r, func(s *v1alpha1.MCPServer) { s.Status.Runtime = tc.runtime })
		got := r.runtime(of, r.says(of))
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestThatMCPAnswersIsSaidOfThisContent(t *testing.T) {
	yes, no, other := conditions.True("Answers", ""), conditions.False("NotMCP", "HTTP 404"),
		conditions.False("NotMCP", "HTTP 405")
	unknown := conditions.Finding{Status: metav1.ConditionUnknown, Reason: "NotAsked", Message: (&Runner{}).notAsked()}
	for name, tc := range map[string]struct {
		generation int64 // that reported
		stands     conditions.Finding
		learned    conditions.Finding
		told       bool
		want       conditions.Finding
	}{
		"nobody asked":                      {3, conditions.Finding{}, conditions.Finding{}, false, unknown},
		"it answers":                        {3, unknown, yes, false, yes},
		"it does not":                       {3, unknown, no, false, no},
		"it does now":                       {3, no, yes, false, yes},
		"it does, and a replica erred late": {3, no, yes, true, yes},
		"a later failure":                   {3, yes, no, false, no},
		"a failure, and a replica that is answered": {3, yes, no, true, yes},
		"a replica is answered otherwise":           {3, yes, conditions.True("Answers", "HTTP 401"), true, yes},
		"it fails otherwise":                        {3, no, other, false, other},
		"a replica was told otherwise":              {3, no, other, true, no},
		"told, and erased":                          {3, conditions.Finding{}, no, true, no},
		"what stands is of older content":           {2, yes, conditions.Finding{}, false, unknown},
		"news, and older content's stands":          {2, yes, no, false, no},
	} {
		r := runner(t)
		r.Learn(Facts{Answers: tc.learned})
		r.pendingReport = !tc.told
		if known := &(v1alpha1.RuntimeStatus{ServerUID: "u1", Generation: 3, Tools: new(int32(2))}); r.says(
			server(r, func(s *v1alpha1.MCPServer) { s.Status.Runtime = known })).Tools == nil {
			t.Errorf("%s: what a replica learned is forgotten", name)
		}
		got := r.says(server(r, func(s *v1alpha1.MCPServer) {
			s.Status.Runtime = &v1alpha1.RuntimeStatus{ServerUID: "u1", Generation: tc.generation}
			if tc.stands.Status != "" {
				s.Status.Conditions = []metav1.Condition{{
					Type: v1alpha1.ConditionBackendAnswers, Status: tc.stands.Status, Reason: tc.stands.Reason,
					Message: tc.stands.Message,
				}}
			}
		})).Answers
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFindings(t *testing.T) {
	r := runner(t)
	plain := errors.New("no route to host")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "statefulsets"}, "echo-backend", errors.New("no"))
	conflict := &apply.Conflict{
		Object: contract.Service, Key: types.NamespacedName{Name: "echo-backend"},
		Fields: []string{".spec.type"}, Others: []string{"kubectl"}, RequeueAfter: 9,
	}
	for name, tc := range map[string]struct {
		err   error
		want  conditions.Finding
		retry bool
	}{
		"applied": {nil, conditions.True("Applied",
			"the backend has the content of the workload generation in status.runtime"), false},
		"a newer stands":    {&blocked{"why", "StandingBack"}, conditions.False("StandingBack", "why"), false},
		"a revision is odd": {&blocked{"why", "BackendBlocked"}, conditions.False("BackendBlocked", "why"), false},
		"unrenderable": {
			podtemplate.Problems{{Field: "spec.x", Message: "no"}},
			conditions.False("SpecInvalid", "spec.x: no"), false,
		},
		"refused":         {&apply.BadIntent{Err: errors.New("policy")}, conditions.False("ApplyFailed", "policy"), true},
		"not allowed":     {forbidden, conditions.False("ApplyFailed", forbidden.Error()), true},
		"could not reach": {plain, conditions.Finding{}, true},
		"a conflict":      {conflict, conditions.FieldConflict([]*apply.Conflict{conflict}), false},
		"worse than that": {errors.Join(conflict, plain), conditions.Finding{}, true},
	} {
		got, err := r.finding(server(r, func(*v1alpha1.MCPServer) {}), tc.err)
		if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.retry {
			t.Errorf("%s: retries with %v (-want +got):\n%s", name, err, diff)
		}
	}
	got, err := r.finding(server(r, func(*v1alpha1.MCPServer) {}), fmt.Errorf("applying: %w", apply.ErrForeign))
	if got.Status != metav1.ConditionFalse || got.Reason != v1alpha1.ReasonNameTaken || err != nil {
		t.Errorf("a foreign object: got %v, %v", got, err)
	}
	got, err = r.finding(server(r, func(*v1alpha1.MCPServer) {}),
		fmt.Errorf("applying: %w", &apply.Unadoptable{Err: plain}))
	if got.Status != metav1.ConditionFalse || got.Reason != v1alpha1.ReasonNotAdoptable || err == nil {
		t.Errorf("one that was handed over: got %v, %v", got, err)
	}
}

func TestTheConditionFollowsTheFindingAndNotTheSpec(t *testing.T) {
	r, f := runner(t), conditions.True("Applied", "m")
	live := metav1.Condition{
		Type: v1alpha1.ConditionBackendApplied, Status: metav1.ConditionTrue, Reason: "Applied",
		Message: "m", ObservedGeneration: 5,
	}
	for name, tc := range map[string]struct {
		edit func(*metav1.Condition)
		want int64
	}{
		"the same":       {func(*metav1.Condition) {}, 5},
		"another status": {func(c *metav1.Condition) { c.Status = metav1.ConditionFalse }, 9},
		"another reason": {func(c *metav1.Condition) { c.Reason = "x" }, 9},
		"another text":   {func(c *metav1.Condition) { c.Message = "x" }, 9},
		"none":           {func(c *metav1.Condition) { c.Type = "Ready" }, 9},
	} {
		c := live
		tc.edit(&c)
		s := server(r, func(s *v1alpha1.MCPServer) { s.Status.Conditions = []metav1.Condition{c} })
		if got := observedGeneration(s, v1alpha1.ConditionBackendApplied, f); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}

func TestStartsOfTheBackend(t *testing.T) {
	r := runner(t)
	up := func(edit func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
		intent, err := workload.Backend(r.Run, workload.Slot1)
		if err != nil {
			t.Fatal(err)
		}
		s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{UID: "s1", Generation: 2, Annotations: intent.Annotations}}
		s.Spec.Template.Annotations = intent.Spec.Template.Annotations
		s.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 1,
			UpdateRevision: "a",
		}
		edit(s)
		return s
	}
	for name, tc := range map[string]struct {
		set  *appsv1.StatefulSet
		want Start
	}{
		"none":              {nil, Start{}},
		"one is ready":      {up(func(*appsv1.StatefulSet) {}), Start{UID: "s1", Revision: "a", Content: "b"}},
		"none is ready":     {up(func(s *appsv1.StatefulSet) { s.Status.ReadyReplicas = 0 }), Start{}},
		"an older pod runs": {up(func(s *appsv1.StatefulSet) { s.Status.UpdatedReplicas = 1 }), Start{}},
		"its spec is new":   {up(func(s *appsv1.StatefulSet) { s.Generation = 3 }), Start{}},
		"another's content": {up(func(s *appsv1.StatefulSet) {
			s.Spec.Template.Annotations[workload.AnnotationBackendHash] = "x"
		}), Start{}},
		"an older proxy's": {
			up(func(s *appsv1.StatefulSet) { s.Annotations[revision.AnnotationGeneration] = "2" }),
			Start{UID: "s1", Revision: "a", Content: "b"},
		},
	} {
		if got := started(tc.set, "b"); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

// A new proxy in front of a backend that runs asks it first, for a while, and says in one report what it learned.
func TestTheFirstReportWaitsForABackendThatRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		edit   func(*Runner, *v1alpha1.MCPServer, *appsv1.StatefulSet)
		passed time.Duration
		want   time.Duration
	}{
		"it runs":            {nil, 0, 2 * time.Second},
		"it is asked":        {nil, 1500 * time.Millisecond, 500 * time.Millisecond},
		"it does not answer": {nil, 2 * time.Second, 0},
		"it has answered": {func(r *Runner, _ *v1alpha1.MCPServer, _ *appsv1.StatefulSet) {
			r.Learn(Facts{Answers: conditions.True("Answers", "")})
		}, 0, 0},
		"a replica reported": {func(_ *Runner, s *v1alpha1.MCPServer, _ *appsv1.StatefulSet) {
			s.Status.Runtime.Generation = 3
		}, 0, 0},
		"other content runs": {func(_ *Runner, _ *v1alpha1.MCPServer, s *appsv1.StatefulSet) {
			s.Spec.Template.Annotations = nil
		}, 0, 0},
		"no pod of it is up": {func(_ *Runner, _ *v1alpha1.MCPServer, s *appsv1.StatefulSet) {
			s.Status.ReadyReplicas = 0
		}, 0, 0},
		"it is not to be asked": {func(r *Runner, _ *v1alpha1.MCPServer, _ *appsv1.StatefulSet) { r.AskFirst = 0 }, 0, 0},
	} {
		r, now := runner(t), time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
		r.AskFirst, r.Now = 2*time.Second, func() time.Time { return now }
		set := &appsv1.StatefulSet{}
		set.Spec.Template.Annotations = map[string]string{workload.AnnotationBackendHash: "b"}
		set.Status = appsv1.StatefulSetStatus{Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, UpdateRevision: "a"}
		w := snapshot{}
		w.owner = server(r, func(s *v1alpha1.MCPServer) {
			s.Status.Runtime = &v1alpha1.RuntimeStatus{ServerUID: "u1", Generation: 2}
		})
		if tc.edit != nil {
			tc.edit(r, w.owner.(*v1alpha1.MCPServer), set)
		}
		start := started(set, "b")
		r.firstAnswerWait(w, start)
		now = now.Add(tc.passed)
		if got := max(0, r.firstAnswerWait(w, start)); got != tc.want {
			t.Errorf("%s: it waits %s, want %s", name, got, tc.want)
		}
	}
}

func TestWhatMayNotBeJudgedByItsMark(t *testing.T) {
	r := runner(t)
	owner := func(kind, name string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, Name: name, UID: uid, Controller: new(true)}}
	}
	var back *blocked
	for name, tc := range map[string]struct {
		meta    metav1.ObjectMeta
		judged  bool
		settled bool
	}{
		"ours":                 {metav1.ObjectMeta{OwnerReferences: owner("MCPServer", "echo", "u1")}, true, false},
		"nobody's":             {metav1.ObjectMeta{}, true, false},
		"of an earlier server": {metav1.ObjectMeta{OwnerReferences: owner("MCPServer", "echo", "u0")}, false, false},
		"of another kind":      {metav1.ObjectMeta{OwnerReferences: owner("Deployment", "echo", "u0")}, true, false},
		"on its way out":       {metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}, false, true},
		"without a hash": {
			metav1.ObjectMeta{Annotations: map[string]string{revision.AnnotationGeneration: "3"}},
			true,
			false,
		},
		"without a generation": {
			metav1.ObjectMeta{Annotations: map[string]string{revision.AnnotationHash: "x"}},
			false,
			false,
		},
		"with a strange one": {metav1.ObjectMeta{Annotations: map[string]string{
			revision.AnnotationGeneration: "-3", revision.AnnotationHash: "x",
		}}, false, false},
	} {
		_, exists, err := r.liveRevision(child{kind: "StatefulSet", live: &appsv1.StatefulSet{ObjectMeta: tc.meta}})
		if !exists || (err == nil) != tc.judged || err != nil && isSettled(err) != tc.settled ||
			err != nil && errors.As(err, &back) == tc.settled {
			t.Errorf("%s: exists %v, %v", name, exists, err)
		}
	}
}

func TestAnAbsenceIsNotBelievedFromACache(t *testing.T) {
	for name, o := range map[string]child{
		"of the object":   {kind: "StatefulSet"},
		"of its revision": {kind: "StatefulSet", live: &appsv1.StatefulSet{}},
	} {
		// Without an Applier a write would panic.
		if _, err := runner(t).gatedApply(t.Context(), runner(t).mine(), o, false); !errors.Is(err, errLookLive) ||
			!isStale(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// inOrder has a server, else nothing, and remembers for what it was asked.
type inOrder struct {
	client.Reader
	server *v1alpha1.MCPServer
	asked  []string
}

func (r *inOrder) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	r.asked = append(r.asked, strings.TrimPrefix(fmt.Sprintf("%T ", obj), "*")+key.Name)
	if server, ok := obj.(*v1alpha1.MCPServer); ok && r.server != nil {
		r.server.DeepCopyInto(server)
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// A newer runner reports before it writes: what was read of an object is never newer than a report that is read after
// it. The slots that are read are those that the status names.
func TestTheReportIsReadAfterWhatItSpeaksOf(t *testing.T) {
	slot1 := []string{"v1.StatefulSet echo-backend", "v1.Service echo-backend", "v1.Service echo-backend-headless"}
	slot2 := []string{"v1.StatefulSet echo-slot2", "v1.Service echo-slot2", "v1.Service echo-slot2-headless"}
	owner := []string{"v1alpha1.MCPServer echo"}
	in := func(slot int32) v1alpha1.BackendContent {
		return v1alpha1.BackendContent{Slot: slot, Hash: fmt.Sprint(slot)}
	}
	r := runner(t)
	for _, tc := range []struct {
		name   string
		status *v1alpha1.MCPServerStatus // nil without a server
		want   [][]string
	}{
		{"no server", nil, [][]string{owner}},
		{"no pointer", &v1alpha1.MCPServerStatus{}, [][]string{owner, slot1, owner}},
		{"the pointer is to the second slot", &v1alpha1.MCPServerStatus{
			Active: &v1alpha1.ActiveBackend{BackendContent: in(2)},
		}, [][]string{slot1, owner, slot2, owner}},
		{"it still is", &v1alpha1.MCPServerStatus{
			Active: &v1alpha1.ActiveBackend{BackendContent: in(2)},
		}, [][]string{slot2, owner}},
		{"there is a rollout", &v1alpha1.MCPServerStatus{
			Active: &v1alpha1.ActiveBackend{BackendContent: in(2)}, Rollout: &v1alpha1.RolloutStatus{Target: in(1)},
		}, [][]string{slot2, owner, slot1, slot2, owner}},
		{"it drains", &v1alpha1.MCPServerStatus{
			Active:  &v1alpha1.ActiveBackend{BackendContent: in(1)},
			Rollout: &v1alpha1.RolloutStatus{Target: in(1), From: new(in(2))},
		}, [][]string{slot1, slot2, owner}},
	} {
		reads := &inOrder{}
		if tc.status != nil {
			reads.server = server(r, func(s *v1alpha1.MCPServer) { s.Status = *tc.status })
		}
		if _, err := r.observe(t.Context(), reads); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(slices.Concat(tc.want...), reads.asked); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
