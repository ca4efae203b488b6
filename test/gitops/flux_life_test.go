package gitops

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// server is a server of the team in an environment.
func (f *flux) server(environment, name string) (*kit.Env, *v1alpha1.MCPServer) {
	return f.On("team-" + environment),
		&v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: "team-" + environment, Name: name}}
}

// current fails unless kstatus calls a server current.
func (f *flux) current(environment, name string) *v1alpha1.MCPServer {
	f.Helper()
	s, server := f.server(environment, name)
	live := s.Unstructured(server)
	if is, message, err := kit.Kstatus(live); err != nil || is != "Current" {
		f.Fatalf("Flux says Ready while %s is %s: %s %v", s.Title(server), is, message, err)
	}
	s.Read(server)
	return server
}

// TestFluxTakesATeamToReady applies the whole of flux.yaml: production follows staging, and the servers are Ready when
// Flux says so, with a Secret that SOPS decrypted.
func TestFluxTakesATeamToReady(t *testing.T) {
	f := newFlux(t)
	revision := "main@sha1:" + f.repo.push("servers")
	f.apply("dev", "staging", "prod")
	for _, environment := range []string{"dev", "staging", "prod"} {
		f.ready(environment, revision)
		for _, name := range []string{"search", "notes"} {
			server := f.current(environment, name)
			if c := ready(server); c == nil || c.Status != "True" || c.ObservedGeneration != server.Generation {
				t.Errorf("Flux says Ready of %s, and %s says %+v", environment, name, c)
			}
		}
		secret := &corev1.Secret{ObjectMeta: named("search")}
		f.On("team-" + environment).Read(secret)
		if string(secret.Data["token"]) != "hidden-token" {
			t.Errorf("the Secret in %s was not decrypted: %q", environment, secret.Data)
		}
	}
	_, first := f.server("prod", "search")
	f.On("team-prod").Read(first)
	staging := kustomization("staging")
	f.Read(staging)
	since := f.since(staging)
	if first.CreationTimestamp.Time.Before(since) {
		t.Errorf("production began at %s, before staging was Ready at %s", first.CreationTimestamp, since)
	}
	if proxies := first.Spec.Proxy.Replicas; proxies == nil || *proxies != 2 {
		t.Errorf("production has %v proxies for a server, want 2", proxies)
	}
}

// since is when a Kustomization became Ready.
func (f *flux) since(object *unstructured.Unstructured) time.Time {
	f.Helper()
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range all {
		if c, ok := one.(map[string]any); ok && c["type"] == "Ready" {
			at, err := time.Parse(time.RFC3339, fmt.Sprint(c["lastTransitionTime"]))
			f.Must(err, "reading a time")
			return at
		}
	}
	f.Fatalf("%s has no condition Ready", object.GetName())
	return time.Time{}
}

// TestFluxSaysWhatAServerDoes takes a server through its life by commits, and holds what Flux says at each step.
func TestFluxSaysWhatAServerDoes(t *testing.T) {
	f := newFlux(t)
	first := "main@sha1:" + f.repo.push("servers")
	f.apply("dev")
	f.ready("dev", first)

	// Updating: Flux waits for the new content and then says Ready, not before.
	f.repo.edit(base+"notes.yaml", "  envFrom:", "  env: [{name: ROUND, value: \"2\"}]\n  envFrom:")
	updated := f.push("another variable")
	f.ready("dev", updated)
	server := f.current("dev", "notes")
	if len(server.Spec.Env) != 1 || server.Status.ObservedGeneration != server.Generation {
		t.Errorf("Flux says Ready of %s before the server is: %+v", updated, server.Status)
	}

	// Suspended, and scaled to zero by Git: reached states.
	f.repo.edit(base+"notes.yaml", "spec:\n", "spec:\n  suspend: true\n")
	f.ready("dev", f.push("suspend"))
	if c := stopped(f.current("dev", "notes")); c == nil || c.Status != "True" || c.Reason != v1alpha1.ReasonSuspended {
		t.Errorf("a suspended server says %+v", c)
	}
	f.repo.edit(base+"notes.yaml", "  suspend: true\n", "  replicas: 0\n")
	f.ready("dev", f.push("scale to zero"))
	if c := stopped(f.current("dev", "notes")); c == nil || c.Status != "True" || c.Reason != v1alpha1.ReasonScaledToZero {
		t.Errorf("a server that is scaled to zero says %+v", c)
	}
	f.repo.edit(base+"notes.yaml", "  replicas: 0\n", "")
	f.ready("dev", f.push("start again"))
	if c := ready(f.current("dev", "notes")); c == nil || c.Status != "True" {
		t.Errorf("a server that was started again says %+v", c)
	}

	f.fails("notes", "registry.invalid/team/notes:2.0.2")

	// Fixed by the next commit.
	f.repo.edit(base+"notes.yaml", "  image: registry.invalid/team/notes:2.0.2\n  progressDeadlineSeconds: 20\n",
		"  image: registry.example.com/team/notes:2.0.1\n")
	f.ready("dev", f.push("the image that is"))
	if c := ready(f.current("dev", "notes")); c == nil || c.Status != "True" {
		t.Errorf("the server that was fixed says %+v", c)
	}
}

// fails has Git name an image that is not there: Flux says which server failed, long before its timeout, and the server
// says why.
func (f *flux) fails(name, image string) {
	f.Helper()
	f.Kubelet.Image(image, kit.ImagePullBackOff("not found"))
	f.repo.edit(base+name+".yaml", "  image: registry.example.com/team/notes:2.0.1\n",
		"  image: "+image+"\n  progressDeadlineSeconds: 20\n")
	message := f.says("dev", f.push("an image that is not there"), "False", "HealthCheckFailed")
	if !strings.Contains(message, "failed early due to stalled resources: [MCPServer/team-dev/"+name+
		" status: 'Failed']") {
		f.Errorf("Flux does not name the server, or waited for its timeout: %s", message)
	}
	s, server := f.server("dev", name)
	s.Read(server)
	if c := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionStalled); c == nil ||
		c.Status != "True" || !strings.Contains(c.Message, image) {
		f.Errorf("the server that failed says %+v", c)
	}
}

func ready(server *v1alpha1.MCPServer) *metav1.Condition {
	return meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady)
}

// stopped is the condition of a server that has stopped as Git asked. It is not Ready then.
func stopped(server *v1alpha1.MCPServer) *metav1.Condition {
	if ready(server) != nil {
		return nil
	}
	return meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionSuspended)
}
