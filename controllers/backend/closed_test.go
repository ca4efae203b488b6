package backend

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// podsOf is a StatefulSet for pods of content whose bridge knows proxies by a sum.
func podsOf(content, sum string) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{}
	set.Spec.Template.Annotations = map[string]string{workload.AnnotationBackendHash: content}
	set.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "server", Env: []corev1.EnvVar{{Name: runconfig.EnvProxySum, Value: sum}},
	}}
	return set
}

// What runs keeps what it was made with, until the key has been another one for long; what is new has the key of now.
// Without a key nothing new is made.
func TestByWhatABridgeKnowsProxies(t *testing.T) {
	none := errors.New("the Secret echo-session has no key")
	now := time.Unix(1_800_000_000, 0)
	type step struct {
		live  *appsv1.StatefulSet
		after time.Duration
		sum   string
		err   error
		want  string // "-" for blocked
	}
	for name, steps := range map[string][]step{
		"nothing stands":             {{nil, 0, "a", nil, "a"}},
		"nothing stands, no key":     {{nil, 0, "", none, "-"}},
		"other content":              {{podsOf("other", "b"), 0, "a", nil, "a"}},
		"other content, no key":      {{podsOf("other", "b"), 0, "", none, "-"}},
		"it was taken off":           {{podsOf("mine", ""), 0, "a", nil, "a"}},
		"it stands":                  {{podsOf("mine", "a"), 0, "a", nil, "a"}},
		"it stands, the key is lost": {{podsOf("mine", "a"), time.Hour, "", none, "a"}},
		"it stands, with a key of before": {
			{podsOf("mine", "b"), 0, "a b", nil, "b"},
			{podsOf("mine", "b"), 24 * time.Hour, "a b", nil, "b"},
		},
		"another key": {
			{podsOf("mine", "b"), 0, "a", nil, "b"},
			{podsOf("mine", "b"), keyPatience - time.Second, "a", nil, "b"},
			{podsOf("mine", "b"), time.Second, "a", nil, "a"},
			{podsOf("mine", "a"), 0, "a", nil, "a"},
		},
		"another key for a moment": {
			{podsOf("mine", "b"), 0, "a", nil, "b"},
			{podsOf("mine", "b"), time.Minute, "b", nil, "b"},
			{podsOf("mine", "b"), keyPatience, "a", nil, "b"},
		},
		"another runner's Secret is another one for good": {
			{podsOf("mine", "b"), 0, "a", nil, "b"},
			{podsOf("mine", "b"), keyPatience, "a", nil, "a"},
			{podsOf("mine", "a"), 0, "a", nil, "a"},
		},
	} {
		at, r := now, &Runner{}
		r.Now = func() time.Time { return at }
		for i, s := range steps {
			at = at.Add(s.after)
			r.ProxySums = func() ([]string, error) { return strings.Fields(s.sum), s.err }
			r.nextPass = 0
			got, err := r.proxySum(workload.Slot1, s.live, "mine")
			var back *blocked
			if errors.As(err, &back) {
				got = "-"
			}
			if got != s.want || got == "-" && !strings.Contains(err.Error(), none.Error()) {
				t.Errorf("%s, %d: got %q, %v, want %q", name, i, got, err, s.want)
			}
			if r.nextPass == 0 {
				t.Errorf("%s, %d: nobody looks again", name, i)
			}
		}
	}
}

// Two runners whose Secrets differ for good replace the pods less and less often; where one has ended, what it left
// does not stay.
func TestRunnersThatHaveOtherKeysDoNotReplacePodsForEver(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	runners := map[string]*Runner{}
	for _, key := range []string{"a", "b"} {
		runners[key] = &Runner{
			Now: func() time.Time { return at }, ProxySums: func() ([]string, error) { return []string{key}, nil },
		}
	}
	stands, replaced := "first", 0
	for range 600 {
		at = at.Add(time.Minute)
		for _, r := range runners {
			sum, err := r.proxySum(workload.Slot1, podsOf("mine", stands), "mine")
			if err != nil {
				t.Fatal(err)
			}
			if sum != stands {
				stands, replaced = sum, replaced+1
			}
		}
	}
	if replaced == 0 || replaced > 12 {
		t.Errorf("the pods are replaced %d times in ten hours", replaced)
	}
	delete(runners, "b")
	stands = "b"
	for range 600 {
		at = at.Add(time.Minute)
		sum, err := runners["a"].proxySum(workload.Slot1, podsOf("mine", stands), "mine")
		if err != nil {
			t.Fatal(err)
		}
		stands = sum
	}
	if stands != "a" {
		t.Error("what a runner has left that ended stays")
	}
}

// A slot's StatefulSet states it, whatever the content is remembered as.
func TestTheStatefulSetOfASlotStatesIt(t *testing.T) {
	r := runner(t)
	r.Run.Backend.Transport, r.Run.Backend.Command = "stdio", []string{"/server"}
	r.Run.Backend.Bridge, r.Run.Backend.Rendering = &runconfig.Bridge{Image: "runner", Sessions: 1}, 2
	for _, slot := range workload.Slots {
		for _, sum := range []string{"a", "b"} {
			r.ProxySums = func() ([]string, error) { return []string{sum}, nil }
			o, err := r.statefulSet(snapshot{owner: server(r, nil)}, slot, r.Run)
			if err != nil {
				t.Fatal(err)
			}
			data, err := json.Marshal(o.intent)
			if err != nil {
				t.Fatal(err)
			}
			if want := `{"name":"FREEHOLD_PROXY_SHA256","value":"` + sum + `"}`; !strings.Contains(string(data), want) {
				t.Errorf("slot %d does not state %s: %s", slot, want, data)
			}
		}
	}
}
