package mcpserver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// A webhook that is ill refuses in other words each time. To say so each time
// would wake the next pass, which is refused again.
func TestARefusalInOtherWordsIsSaidOnceAMinute(t *testing.T) {
	r, s := settled(t)
	now := noon
	r.Now = func() time.Time { return now }
	server := read(s)
	server.Spec.Image, server.Generation = "registry.example.com/echo:2", server.Generation+1
	s.put(server)
	tries := 0
	s.refuse = func(kind string) error {
		if kind != "Deployment" {
			return nil
		}
		tries++
		return fmt.Errorf("failed calling webhook: read tcp 10.0.0.2:%d: connection reset by peer", 40000+tries)
	}
	told := map[string]bool{}
	pass := func() {
		if _, err := r.Reconcile(t.Context(), theServer); err != nil && !strings.Contains(err.Error(), "reset by peer") {
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
	if tries < 20 || len(told) == 0 || len(told) > 2 {
		t.Errorf("of %d tries within a minute it told %d", tries, len(told))
	}
	now = now.Add(time.Minute)
	before := len(told)
	if pass(); len(told) != before+1 {
		t.Errorf("after a minute it tells what it told before: %v", told)
	}
}

func intent(t *testing.T, text string) runtime.ApplyConfiguration {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return client.ApplyConfigurationFromUnstructured(u)
}

// New content goes out while others fight for what stands around the proxy, each
// at a time of its own.
func TestFightsDoNotHoldNewContentUp(t *testing.T) {
	r, s := settled(t)
	now := noon
	r.Now = func() time.Time { return now }
	r.applier.Now = r.Now
	account, service := `{"apiVersion":"v1","kind":"ServiceAccount"`, `{"apiVersion":"v1","kind":"Service"`
	steal := func(what, name, field string) {
		if err := s.apply(intent(t, what+`,"metadata":{"name":"`+name+`","namespace":"ns"},`+field+`}`), "intruder", ""); err != nil {
			t.Fatal(err)
		}
	}
	stealBoth := func() {
		steal(account, "echo-runner", `"automountServiceAccountToken":true`)
		steal(service, "echo-proxy", `"spec":{"type":"NodePort"}`)
	}
	pass := func() {
		if _, err := r.Reconcile(t.Context(), theServer); err != nil {
			t.Fatal(err)
		}
	}
	// Their takings back fall half a minute apart.
	for range 4 {
		steal(account, "echo-runner", `"automountServiceAccountToken":true`)
		pass()
	}
	now = now.Add(30 * time.Second)
	for range 4 {
		stealBoth()
		pass()
	}
	server := read(s)
	server.Spec.Image, server.Generation = "registry.example.com/echo:2", server.Generation+1
	s.put(server)
	for range 4 { // Ready goes down, the number is claimed, the proxy follows
		stealBoth()
		pass()
	}
	if rev := revisionOf(s.objects[storedKey{"Deployment", "echo-proxy"}].(*appsv1.Deployment)); rev.Generation != 2 {
		t.Errorf("the proxy has %v", rev)
	}
	if c := meta.FindStatusCondition(read(s).Status.Conditions, v1alpha1.ConditionFieldsContended); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("the fights are not told: %v", c)
	}
}

// A longer wait does not hide a shorter one.
func TestTheShortestWaitCounts(t *testing.T) {
	r, s := settled(t)
	now := noon
	r.Now = func() time.Time { return now }
	r.applier.Now = r.Now
	for range 2 { // then it is told, for two minutes
		if err := s.apply(intent(t, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"echo-proxy","namespace":"ns"},"spec":{"type":"NodePort"}}`), "intruder", ""); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reconcile(t.Context(), theServer); err != nil {
			t.Fatal(err)
		}
	}
	delete(s.objects, storedKey{"Role", "echo-runner"})
	s.refuse = func(kind string) error {
		if kind == "Role" {
			return apierrors.NewBadRequest("no roles today")
		}
		return nil
	}
	result, err := r.Reconcile(t.Context(), theServer)
	if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > 2*time.Minute {
		t.Errorf("it comes again after %s, %v", result.RequeueAfter, err)
	}
}
