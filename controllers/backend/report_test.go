package backend

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// The words of a refusal that stands change once a minute, whatever differs. Those
// of another reason or another workload generation are said at once.
func TestARefusalIsRewordedOnceAMinute(t *testing.T) {
	r := runner(t)
	now := r.Now()
	r.Now = func() time.Time { return now }
	for _, step := range []struct {
		after           time.Duration
		stands, refusal string
		reason          string
		generation      int64
		want            string
	}{
		{0, "by images", "by quota 1", v1alpha1.ReasonApplyFailed, 3, "by quota 1"},
		{time.Second, "by quota 1", "by images", v1alpha1.ReasonApplyFailed, 3, "by quota 1"},
		{time.Second, "by quota 1", "by quota 2", v1alpha1.ReasonApplyFailed, 3, "by quota 1"},
		{time.Second, "by quota 1", "by images", v1alpha1.ReasonApplyFailed, 2, "by images"},
		{time.Second, "by quota 1", "by images", v1alpha1.ReasonNameTaken, 3, "by images"},
		{time.Minute, "by quota 1", "by quota 2", v1alpha1.ReasonApplyFailed, 3, "by quota 2"},
		{time.Second, "by quota 2", "by quota 1", v1alpha1.ReasonApplyFailed, 3, "by quota 2"},
	} {
		now = now.Add(step.after)
		s := server(r, func(s *v1alpha1.MCPServer) {
			s.Status.Runtime = &v1alpha1.RuntimeStatus{Generation: step.generation, ServerUID: "u1"}
			s.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionBackendApplied, Status: metav1.ConditionFalse, Reason: step.reason, Message: step.stands,
			}}
		})
		if got, err := r.finding(s, &apply.BadIntent{Err: errors.New(step.refusal)}); got.Message != step.want || err == nil {
			t.Errorf("%+v: it says %q (%v)", step, got.Message, err)
		}
	}
}

// A writer that takes the generation out of a condition of ours does not make us
// state 0, which no stored condition has: we would state it again and again.
func TestAConditionSpeaksOfAGenerationThatWas(t *testing.T) {
	said := conditions.True("Answers", "m")
	for name, tc := range map[string]struct {
		stands metav1.Condition
		want   int64
	}{
		"none": {metav1.Condition{}, 7},
		"the same": {metav1.Condition{
			Type: "BackendAnswers", Status: "True", Reason: "Answers", Message: "m",
			ObservedGeneration: 3,
		}, 3},
		"another": {metav1.Condition{
			Type: "BackendAnswers", Status: "False", Reason: "Answers", Message: "m",
			ObservedGeneration: 3,
		}, 7},
		"of no generation": {metav1.Condition{Type: "BackendAnswers", Status: "True", Reason: "Answers", Message: "m"}, 7},
	} {
		server := &v1alpha1.MCPServer{
			ObjectMeta: metav1.ObjectMeta{Generation: 7},
			Status: v1alpha1.MCPServerStatus{
				ProxyWorkloadStatus: v1alpha1.ProxyWorkloadStatus{Conditions: []metav1.Condition{tc.stands}},
			},
		}
		if got := observedGeneration(server, "BackendAnswers", said); got != tc.want {
			t.Errorf("%s: it speaks of %d, want %d", name, got, tc.want)
		}
	}
}

// Of content that gets the calls beside the runner's own it says whether it answers, under its hash, and of what gets
// them since a moment ago nothing before that is known.
func TestWhatIsSaidOfWhatServesBesideTheRunnersContent(t *testing.T) {
	yes, no := conditions.True("Answers", ""), conditions.False("NotAnswering", "no")
	ofA := func(f conditions.Finding) Facts { return Facts{Content: "a", Answers: f} }
	unknown := conditions.Finding{Status: metav1.ConditionUnknown, Reason: "NotAsked", Message: (&Runner{}).notAsked()}
	for name, tc := range map[string]struct {
		serves string
		// generation reported stands of content.
		generation int64
		content    string
		stands     conditions.Finding
		learned    Facts
		told       bool
		want       conditions.Finding
		of         string
		heard      string
		knowsMore  bool
	}{
		"what earlier runners said stands":       {"a", 2, "a", yes, Facts{}, false, yes, "a", "a", false},
		"and what they said of a failure":        {"a", 2, "a", no, Facts{}, false, no, "a", "a", false},
		"what they said of other content is not": {"a", 2, "x", yes, Facts{}, false, unknown, "a", "a", false},
		"nor where they say not of which":        {"a", 2, "", yes, Facts{}, false, unknown, "a", "a", false},
		"it answers, as they said":               {"a", 2, "a", yes, ofA(yes), false, yes, "a", "a", false},
		"it answers again":                       {"a", 2, "a", no, ofA(yes), false, yes, "a", "a", true},
		"it has stopped to answer":               {"a", 3, "a", yes, ofA(no), false, no, "a", "a", true},
		"a replica has told so":                  {"a", 3, "a", no, Facts{Content: "x"}, false, no, "a", "a", false},
		"it gets the calls, and was not asked":   {"b", 3, "a", yes, ofA(no), true, yes, "a", "a", false},
		"it gets them, and answers":              {"b", 3, "a", yes, Facts{Answers: yes}, true, yes, "b", "a", false},
		"it gets them, and does not answer":      {"b", 3, "a", yes, Facts{Answers: no}, true, no, "b", "a", false},
		"it gave them back":                      {"a", 3, "", no, Facts{Answers: no}, true, no, "b", "a", false},
		"its own runners asked before":           {"b", 2, "b", yes, Facts{}, false, unknown, "b", "a", false},
		"it never answered this runner":          {"a", 2, "a", yes, ofA(no), false, no, "a", "", false},
		"it answered, and stopped to":            {"a", 2, "a", yes, ofA(no), false, no, "a", "a", true},
		"earlier proxies may serve, and know better": {
			"a", 1, "a", yes, ofA(no), false, no, "a", "a", false,
		},
		"nobody had asked it": {"a", 2, "x", no, ofA(yes), false, yes, "a", "", false},
	} {
		r := runner(t)
		r.content, r.heard = tc.serves, tc.heard
		r.Learn(tc.learned)
		r.pendingReport = r.pendingReport && !tc.told
		s := server(r, func(s *v1alpha1.MCPServer) {
			s.Status.Runtime = &v1alpha1.RuntimeStatus{ServerUID: "u1", Generation: tc.generation, BackendHash: tc.content}
			s.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionBackendAnswers, Status: tc.stands.Status, Reason: tc.stands.Reason,
				Message: tc.stands.Message,
			}}
			if s.Status.ServedGeneration = 3; tc.generation == 1 {
				s.Status.ServedGeneration = 1
			}
			s.Status.Active = &v1alpha1.ActiveBackend{BackendContent: v1alpha1.BackendContent{
				Slot: 1, Hash: tc.serves, Transport: v1alpha1.TransportStreamableHTTP,
			}}
		})
		got := r.says(s)
		if diff := cmp.Diff(tc.want, got.Answers); diff != "" || got.Content != tc.of {
			t.Errorf("%s: of %q (-want +got):\n%s", name, got.Content, diff)
		}
		if r.knowsMore(s) != tc.knowsMore {
			t.Errorf("%s: it knows more: %t", name, !tc.knowsMore)
		}
	}
}

// Of a failure that runners before have reported this one goes on only where it asks itself: else nobody takes it back.
func TestAFailureIsCarriedOnWhereItCanEnd(t *testing.T) {
	no := conditions.False("NotAnswering", "no")
	bridged := func(sessions int32) map[string]runconfig.RunConfig {
		return map[string]runconfig.RunConfig{"a": {Backend: runconfig.Backend{
			Bridge: &runconfig.Bridge{Sessions: sessions, Shared: sessions == 0},
		}}}
	}
	for name, tc := range map[string]struct {
		transport v1alpha1.Transport
		stored    map[string]runconfig.RunConfig
		want      metav1.ConditionStatus
	}{
		"it takes calls itself":               {v1alpha1.TransportStreamableHTTP, nil, metav1.ConditionFalse},
		"a question may start a process":      {v1alpha1.TransportStdio, nil, metav1.ConditionUnknown},
		"a question starts a process":         {v1alpha1.TransportStdio, bridged(8), metav1.ConditionUnknown},
		"sessions share a process":            {v1alpha1.TransportStdio, bridged(0), metav1.ConditionFalse},
		"it is bridged, and not from history": {v1alpha1.TransportSSE, nil, metav1.ConditionUnknown},
	} {
		r := runner(t)
		r.content, r.stored = "a", tc.stored
		got := r.says(server(r, func(s *v1alpha1.MCPServer) {
			s.Status.Runtime = &v1alpha1.RuntimeStatus{ServerUID: "u1", Generation: 2, BackendHash: "a"}
			s.Status.Active = &v1alpha1.ActiveBackend{BackendContent: v1alpha1.BackendContent{
				Slot: 1, Hash: "a", Transport: tc.transport,
			}}
			s.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionBackendAnswers, Status: no.Status, Reason: no.Reason, Message: no.Message,
			}}
		}))
		if got.Answers.Status != tc.want {
			t.Errorf("%s: it says %v", name, got.Answers)
		}
	}
}

// From the first question without an answer what a replica has learned counts no more against what another one has
// reported, until there is an answer: a hang is said once.
func TestASuccessCountsOverAFailureOnlyWhileItIsOne(t *testing.T) {
	yes, no := conditions.True("Answers", ""), conditions.False("NotAnswering", "no")
	r := runner(t)
	says := func(stands conditions.Finding) conditions.Finding {
		return r.says(server(r, func(s *v1alpha1.MCPServer) {
			s.Status.Runtime = &v1alpha1.RuntimeStatus{ServerUID: "u1", Generation: 3, BackendHash: "b"}
			s.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionBackendAnswers, Status: stands.Status, Reason: stands.Reason, Message: stands.Message,
			}}
		})).Answers
	}
	r.Learn(Facts{Answers: yes, Tools: new(int32(1))})
	r.pendingReport = false
	if got := says(no); got != yes {
		t.Errorf("of a backend that answers it says %v", got)
	}
	r.Learn(Facts{})
	if got := says(no); got != no || says(yes) != yes || r.learned.Tools == nil || r.pendingReport {
		t.Errorf("after a question without an answer it says %v, and knows %+v", got, r.learned)
	}
	r.Learn(Facts{Content: "other"})
	r.Learn(Facts{Answers: yes})
	if got := says(no); got != yes || r.learned.Tools == nil || r.pendingFacts {
		t.Errorf("of one that answers again it says %v, and knows %+v", got, r.learned)
	}
	r.Learn(Facts{Content: "other"})
	if got := says(no); got != yes {
		t.Errorf("after a question to other content it says %v", got)
	}
}

// What a runner has learned while it does not report yet, as before its rollout has come to the backend, it says first;
// once another one has reported it counts no more than what that says.
func TestAFailureThatWaitedIsNoNewsOnceAnotherHasReported(t *testing.T) {
	no := conditions.False("NotAnswering", "no")
	says := func(waited bool, learned ...conditions.Finding) metav1.ConditionStatus {
		r := runner(t)
		r.content = "a"
		r.Learn(Facts{Content: "a", Answers: no})
		r.pendingSinceWait = waited
		for _, answers := range learned {
			r.Learn(Facts{Content: "a", Answers: answers})
		}
		s := server(r, func(s *v1alpha1.MCPServer) {
			s.Status.Runtime = &v1alpha1.RuntimeStatus{ServerUID: "u1", Generation: 3, BackendHash: "a"}
			s.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionBackendAnswers, Status: metav1.ConditionTrue, Reason: "Answers",
			}}
		})
		r.noticeReport(s)
		return r.says(s).Answers.Status
	}
	if got := says(false); got != metav1.ConditionFalse {
		t.Errorf("of a failure that is new it says %s", got)
	}
	if got := says(true); got != metav1.ConditionTrue {
		t.Errorf("of one that waited it says %s", got)
	}
	if got := says(true, conditions.False("NotAnswering", "still")); got != metav1.ConditionFalse {
		t.Errorf("of one that is learned after that it says %s", got)
	}
}

// That tools are lost stands until a runner has seen that they are not, or the generation or the content is another
// one.
func TestToolsThatAreLostAreReported(t *testing.T) {
	lost, none := conditions.True("LostTools", "a"), conditions.Finding{}
	for name, tc := range map[string]struct {
		stands     *conditions.Finding
		generation int64
		content    string
		news       *conditions.Finding
		want       *conditions.Finding
	}{
		"nothing is known":             {nil, 3, "b", nil, nil},
		"news":                         {nil, 3, "b", &lost, &lost},
		"what another runner has seen": {&lost, 3, "b", nil, &lost},
		"they are back":                {&lost, 3, "b", &none, &none},
		"another generation":           {&lost, 2, "b", nil, nil},
		"other content":                {&lost, 3, "a", nil, nil},
	} {
		r := runner(t)
		r.content = "b"
		r.Learn(Facts{Answers: conditions.True("Answers", ""), Tools: new(int32(1)), Lost: tc.news})
		got := r.says(server(r, func(s *v1alpha1.MCPServer) {
			s.Status.Runtime = &v1alpha1.RuntimeStatus{
				ServerUID: "u1", Generation: tc.generation, BackendHash: tc.content, Tools: new(int32(2)),
			}
			if tc.stands != nil {
				s.Status.Conditions = []metav1.Condition{{
					Type: v1alpha1.ConditionToolsLost, Status: tc.stands.Status, Reason: tc.stands.Reason,
					Message: tc.stands.Message,
				}}
			}
		})).Lost
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
