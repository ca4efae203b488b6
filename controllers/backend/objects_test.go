package backend

import (
	"encoding/json"
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// What the operator has recorded goes to the three objects, and leaves them when it goes
// from the record, without another run config.
func TestObjectsCarryWhatIsRecorded(t *testing.T) {
	r := runner(t)
	for _, want := range []map[string]string{{"team": "blue"}, {"team": "green", "cost": "1"}, nil} {
		w := snapshot{owner: server(r, func(s *v1alpha1.MCPServer) {
			s.Status.Workload.Labels, s.Status.Workload.Annotations = want, want
		})}
		set, err := r.statefulSet(w, workload.Slot1, r.Run)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range append(r.services(w, workload.Slot1, r.Run), set) {
			var got struct{ Metadata metav1.ObjectMeta }
			data, err := json.Marshal(o.intent)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			for key := range workload.Labels("echo", "backend") {
				if _, has := got.Metadata.Labels[key]; !has {
					t.Errorf("the %s lost %s", o.kind, key)
				}
				delete(got.Metadata.Labels, key)
			}
			delete(got.Metadata.Annotations, "freehold.dev/workload-generation")
			delete(got.Metadata.Annotations, "freehold.dev/workload-hash")
			if !maps.Equal(got.Metadata.Labels, want) || !maps.Equal(got.Metadata.Annotations, want) {
				t.Errorf("the %s has labels %v and annotations %v beside ours, want %v", o.kind, got.Metadata.Labels,
					got.Metadata.Annotations, want)
			}
		}
	}
}
