package mcpserver

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// The Secret of an earlier server of the name may be collected minutes after the new
// one has rolled out: then the new one makes its own.
func TestASecretThatIsCollectedLateIsMadeAgain(t *testing.T) {
	l := newLife(t)
	server := read(l.stored)
	server.CreationTimestamp = metav1.NewTime(l.now)
	l.put(server)
	key, stands, births := storedKey{"Secret", workload.SessionName("echo")}, true, 0
	l.refuse = func(kind string) error {
		if kind != "Secret" {
			return nil
		}
		births++
		if stands {
			return apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, key.name, nil)
		}
		return nil
	}
	l.passes("it starts", 0)
	l.rollOut()
	l.proxy().Status.ReadyReplicas = 1
	l.passes("it is ready, beside the earlier Secret", time.Second)
	for range 3 {
		l.passes("which still stands", sessionRetry)
		if last := l.states[len(l.states)-1]; last.Again == "" {
			t.Fatalf("nothing wakes the next try: %+v", last)
		}
	}
	if births != 5 {
		t.Errorf("the Secret was tried %d times, want before the content, after the roll-out and each minute", births)
	}
	stands = false
	l.passes("and is collected", sessionRetry)
	if l.objects[key] == nil {
		t.Fatal("the server has no Secret")
	}
	tried := births
	l.passes("it has its own", time.Hour)
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.Args = []string{"new"} })
	l.passes("also under new content", time.Minute)
	if births != tried {
		t.Errorf("it tries %d times more", births-tried)
	}
}

// One that is not young owns what stands, and asks once.
func TestAnOldServerOwnsTheSecretThatStands(t *testing.T) {
	l := newLife(t)
	births := 0
	l.refuse = func(kind string) error {
		if kind != "Secret" {
			return nil
		}
		births++
		return apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "echo-session", nil)
	}
	l.passes("it starts", sessionDoubt)
	l.rollOut()
	l.proxy().Status.ReadyReplicas = 1
	for range 5 {
		l.passes("it is ready", sessionRetry)
	}
	if births != 2 {
		t.Errorf("the Secret was tried %d times, want before the content and after the roll-out", births)
	}
}
