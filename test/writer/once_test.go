package writer

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// The Secret of session ids is made once: whatever stands under its name is left as it is, and not looked at.
func TestWhatIsWrittenOnceIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	owner := workload.OwnerOf(server)
	session := func(key string) { // as a pass states it, which cannot see what stands
		d.Helper()
		d.put(apply.Unchanged, contract.MCPServerChildren, nil,
			workload.SessionSecret(owner, "echo-session", strings.Repeat(key, 32)))
		if sent := d.sent(); len(sent) != 1 || sent[0].Verb != "apply" || len(sent.Answered(409)) != 1 {
			t.Errorf("want one birth that is refused, got %s", sent)
		}
	}
	_ = d.sent()
	d.put(apply.Created, contract.MCPServerChildren, nil,
		workload.SessionSecret(owner, "echo-session", strings.Repeat("a", 32)))
	d.applied(1)
	live := read(d, &corev1.Secret{}, "echo-session")
	if got := string(live.Data["current"]); got != strings.Repeat("a", 32) {
		t.Errorf("it holds %q", got)
	}
	for _, process := range []string{"the same", "another"} {
		session("b")
		d.unmoved(live)
		if process == "the same" {
			d.applier = d.process()
		}
	}
	d.Must(d.Client.Patch(d.Ctx, live,
		client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"current":"rotated by somebody"}}`)),
		client.FieldOwner("kubectl")), "rotating")
	session("c")
	d.unmoved(live)

	// A Secret of others, which has the name, labels that are ours or not.
	d.Delete(live)
	d.AwaitGone(live)
	for _, meta := range []string{
		"", ", labels: {app.kubernetes.io/managed-by: freehold, freehold.dev/server: other}",
		`, annotations: {freehold.dev/adopt: "true"}`,
	} {
		d.Apply("somebody", "{apiVersion: v1, kind: Secret, metadata: {name: echo-session"+meta+
			"}, stringData: {current: theirs}}")
		theirs := read(d, &corev1.Secret{}, "echo-session")
		session("d")
		d.unmoved(theirs)
	}
	// What was deleted is made again by who asks.
	d.Delete(live)
	d.AwaitGone(live)
	_ = d.sent()
	d.put(apply.Created, contract.MCPServerChildren, nil,
		workload.SessionSecret(owner, "echo-session", strings.Repeat("e", 32)))
}
