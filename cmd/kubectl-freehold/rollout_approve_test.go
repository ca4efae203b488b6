package main

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// What a command writes into spec.rollout, and when it writes nothing.
func TestWhatIsWrittenIntoASpecsRollout(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	held := func(reason string) func(*v1alpha1.MCPServer) {
		return func(s *v1alpha1.MCPServer) {
			s.Status.Rollout = &v1alpha1.RolloutStatus{
				Target: v1alpha1.BackendContent{Hash: hash, Generation: 7},
				Steps:  []v1alpha1.RolloutStep{{Name: v1alpha1.StepCheck, State: v1alpha1.StepActive, Reason: reason}},
			}
		}
	}
	isPaused := func(s *v1alpha1.MCPServer) { s.Spec.Rollout = &v1alpha1.RolloutSpec{Paused: true} }
	for name, tc := range map[string]struct {
		decide  func(*v1alpha1.MCPServer) (rolloutChange, error)
		edits   []func(*v1alpha1.MCPServer)
		rollout string
		want    string
	}{
		"a tool is lost": {
			approved,
			[]func(*v1alpha1.MCPServer){held(v1alpha1.ReasonLostTools)},
			`{"strategy":"Successive"}`, `{"approved":"` + hash + `","strategy":"Successive"}`,
		},
		"every content waits": {
			approved,
			[]func(*v1alpha1.MCPServer){held(v1alpha1.ReasonApprovalRequired)},
			`{"approved":"0123456789"}`, `{"approved":"` + hash + `"}`,
		},
		"a tag has moved": {
			approved, []func(*v1alpha1.MCPServer){held(v1alpha1.ReasonImagesDiffer)}, `{}`, `{"approved":"` + hash + `"}`,
		},
		"it is checked": {approved, []func(*v1alpha1.MCPServer){held(v1alpha1.ReasonNotAsked)}, `{}`, ""},
		"no rollout":    {approved, nil, `{}`, ""},
		"another spec than was seen": {approved, []func(*v1alpha1.MCPServer){
			held(v1alpha1.ReasonLostTools), func(s *v1alpha1.MCPServer) { s.Generation = 2 },
		}, `{}`, ""},
		"paused":         {paused, nil, `{"hold":"Never"}`, `{"hold":"Never","paused":true}`},
		"paused, of old": {paused, nil, "", `{"paused":true}`},
		"paused twice":   {paused, []func(*v1alpha1.MCPServer){isPaused}, `{"paused":true}`, ""},
		"resumed":        {resumed, []func(*v1alpha1.MCPServer){isPaused}, `{"paused":true}`, `{}`},
		"resumed twice":  {resumed, nil, `{}`, ""},
	} {
		server, u := &v1alpha1.MCPServer{}, &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
		for _, edit := range tc.edits {
			edit(server)
		}
		if tc.rollout != "" {
			var rollout map[string]any
			if err := json.Unmarshal([]byte(tc.rollout), &rollout); err != nil {
				t.Fatal(err)
			}
			u.Object["spec"].(map[string]any)["rollout"] = rollout
		}
		change, err := tc.decide(server)
		if (err == nil) != (tc.want != "") {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		got, err := json.Marshal(change.in(u)["rollout"])
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: it writes %s, want %s", name, got, tc.want)
		}
	}
}
