package mcpserver

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// creates counts the requests about Secrets. What stands is left as it is.
func (l *life) creates() func() int {
	n := 0
	l.refuse = func(kind string) error {
		if kind != "Secret" {
			return nil
		}
		if n++; n > 1 {
			return apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "echo-session-uid", nil)
		}
		return nil
	}
	return func() int { return n }
}

// mounts is the Secret that the proxies mount.
func (l *life) mounts() string {
	for _, v := range l.proxy().Spec.Template.Spec.Volumes {
		if v.Secret != nil {
			return v.Secret.SecretName
		}
	}
	return ""
}

// restarts is another process that has learned nothing yet.
func (l *life) restarts() {
	l.r = New(snapshot.NewReader(kinds.Servers(), l, l), l.r.Applier, &events.FakeRecorder{}, options)
	l.r.Now = func() time.Time { return l.now }
}

// That the Secret was made is known without a memory: it costs one request in the life of
// a server, and one with each new restartedAt.
func TestTheSecretOfSessionsIsSentOnce(t *testing.T) {
	l := newLife(t)
	creates := l.creates()
	step := func(what string, want int) {
		t.Helper()
		l.passes(what, time.Hour)
		l.rollOut()
		l.passes(what, time.Hour)
		if creates() != want {
			t.Fatalf("%s: the Secret was sent %d times, want %d", what, creates(), want)
		}
	}
	step("it starts", 1)
	if name := workload.SessionName("echo", read(l.stored).UID); l.objects[storedKey{"Secret", name}] == nil ||
		l.mounts() != name || read(l.stored).Status.Workload.SessionSecret != name {
		t.Fatalf("%s is not made, mounted and recorded: %s, %+v", name, l.mounts(), read(l.stored).Status.Workload)
	}
	for _, image := range []string{"registry.example.com/echo:2", "registry.example.com/echo:3"} {
		l.restarts()
		l.spec(func(s *v1alpha1.MCPServer) { s.Spec.Image = image })
		step("another process, and new content", 1)
	}
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.RestartedAt = new(metav1.NewTime(noon)) })
	step("somebody restarts it", 2)
	l.restarts()
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.Suspend = true })
	step("it is suspended", 2)
}

// Ids that clients hold are sealed with the key in it.
func TestAServerKeepsTheSecretThatItHas(t *testing.T) {
	l := newLife(t)
	creates := l.creates()
	server := read(l.stored)
	server.Status.Workload = &v1alpha1.WorkloadStatus{Generation: 4, Hash: "ccc"} // of an older release
	l.put(server)
	l.passes("a newer release starts", 0)
	l.rollOut()
	l.passes("it is ready", time.Second)
	l.spec(func(s *v1alpha1.MCPServer) { s.Spec.Image = "registry.example.com/echo:2" })
	l.passes("new content", time.Second)
	if got, recorded := l.mounts(), read(l.stored).Status.Workload.SessionSecret; got != "echo-session" ||
		recorded != got || creates() != 0 {
		t.Errorf("it mounts %q, and records %q, after %d requests", got, recorded, creates())
	}
}
