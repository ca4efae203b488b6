package snapshot

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// Numbers of pods that are not reported yet are on their way until the API server has seen no others for a minute.
func TestNumbersSettleInAMinute(t *testing.T) {
	changed := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		reported *int32
		after    time.Duration
		want     time.Duration
	}{
		"none are reported":             {nil, 0, 0},
		"they are reported":             {new(int32(2)), 0, 0},
		"just now":                      {new(int32(1)), 0, time.Minute},
		"some seconds ago":              {new(int32(1)), 20 * time.Second, 40 * time.Second},
		"long ago":                      {new(int32(1)), time.Hour, 0},
		"by a clock that is far behind": {new(int32(1)), -time.Hour, time.Minute},
	} {
		server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
		server.Status.Replicas, server.Status.ReadyReplicas = tc.reported, tc.reported
		backend := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
			OwnerReferences: []metav1.OwnerReference{{UID: "uid", Controller: new(true)}},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kube-controller-manager", Subresource: "status", Time: &metav1.Time{Time: changed}},
				{Manager: "other", Time: &metav1.Time{Time: changed.Add(time.Minute)}},
			},
		}}
		backend.Status.Replicas, backend.Status.ReadyReplicas = 2, 2
		if got := Of(server, Objects{Backend: backend}, changed.Add(tc.after)).Settling; got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
