package mcpserver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// A webhook that is ill refuses with another port each time. To say so each time
// would wake the next pass, which is refused again.
func TestARefusalWithOtherNumbersIsSaidOnce(t *testing.T) {
	r, s := settled(t)
	now := noon
	r.Now = func() time.Time { return now }
	server := read(s)
	server.Spec.Image, server.Generation = "registry.example.com/echo:2", server.Generation+1
	s.put(server)
	tries, ill := 0, "connection reset by peer"
	s.refuse = func(kind string) error {
		if kind != "Deployment" {
			return nil
		}
		tries++
		return fmt.Errorf("failed calling webhook: read tcp 10.0.0.2:%d: %s", 40000+tries, ill)
	}
	told := map[string]bool{}
	pass := func() {
		if _, err := r.Reconcile(t.Context(), theServer); err != nil && !strings.Contains(err.Error(), "failed calling webhook") {
			t.Fatal(err)
		}
		ready := meta.FindStatusCondition(read(s).Status.Conditions, v1alpha1.ConditionReady)
		if ready.Reason != v1alpha1.ReasonApplyFailed {
			return // on the way there
		}
		told[ready.Message] = true
		if moving := meta.FindStatusCondition(read(s).Status.Conditions, v1alpha1.ConditionReconciling); moving.Message != ready.Message {
			t.Errorf("Ready says %q, and Reconciling %q", ready.Message, moving.Message)
		}
	}
	for range 30 {
		pass()
		now = now.Add(time.Second)
	}
	if tries < 20 || len(told) != 1 {
		t.Errorf("of %d tries it told %d", tries, len(told))
	}
	ill = "connection refused"
	if pass(); len(told) != 2 {
		t.Errorf("another cause is not told: %v", told)
	}
}
