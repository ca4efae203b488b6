package group

import (
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// The status names each member with its readiness, and of many the first.
func TestTheStatusSaysWhoBelongs(t *testing.T) {
	server := func(name string, ready metav1.ConditionStatus) *v1alpha1.MCPServer {
		s := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}}
		return s
	}
	elsewhere := &v1alpha1.MCPRemoteProxy{ObjectMeta: metav1.ObjectMeta{Name: "docs"}}
	many := []kinds.Object{}
	for i := range mostListed + 1 {
		many = append(many, server(fmt.Sprintf("s%03d", i), "True"))
	}
	for name, tc := range map[string]struct {
		referrers    []kinds.Object
		count, ready int32
		first        string
		listed       int
	}{
		"nobody": {},
		"of both kinds": {
			[]kinds.Object{elsewhere, server("git", "True"), server("web", "False")},
			3, 1,
			`{"kind":"MCPRemoteProxy","name":"docs","ready":false}`, 3,
		},
		"too many": {many, 501, 501, `{"kind":"MCPServer","name":"s000","ready":true}`, 500},
	} {
		text, err := json.Marshal(Kind{}.Intent("g", "team", v1alpha1ac.ConfigStatus().WithWorkloads(tc.count), tc.referrers))
		if err != nil {
			t.Fatal(err)
		}
		var got v1alpha1.MCPGroup
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		first := ""
		if len(got.Status.Members) > 0 {
			member, err := json.Marshal(got.Status.Members[0])
			if first = string(member); err != nil {
				t.Fatal(err)
			}
		}
		if *got.Status.MemberCount != tc.count || *got.Status.ReadyMembers != tc.ready || *got.Status.Workloads != tc.count ||
			len(got.Status.Members) != tc.listed || first != tc.first {
			t.Errorf("%s: the status is %s", name, text)
		}
	}
}
