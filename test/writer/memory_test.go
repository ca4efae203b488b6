package writer

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
)

// A cache shows an object as it was before our last write. The same intent is known to be in force; another one is not.
func TestAnOlderObjectIsNotWrittenAgain(t *testing.T) {
	t.Parallel()
	d := under(t, granting(grant(one, "data.a"), grant(two, "data.b")))
	older := d.there("shared")
	_ = d.sent()
	d.put(apply.Configured, one, older, d.note("shared", "a", "1"))
	d.applied(1)
	for range 3 {
		d.put(apply.Unchanged, one, older, d.note("shared", "a", "1"))
	}
	d.quiet()
	d.put(apply.Configured, one, older, d.note("shared", "a", "2"))
	d.applied(1)
	// Back to what the first write said: that it was written once is no proof.
	d.put(apply.Configured, one, older, d.note("shared", "a", "1"))
	d.applied(1)
	// Another manager's write is nothing that this one remembers.
	d.put(apply.Configured, two, older, d.note("shared", "b", "1"))
	d.applied(1)
	// Nor does a process that has just started; then the server finds no change.
	before := read(d, &corev1.ConfigMap{}, "shared")
	d.applier = d.process()
	got := d.put(apply.Configured, one, older, d.note("shared", "a", "1"))
	if got.ResourceVersion != before.ResourceVersion {
		t.Errorf("the object moved from %s to %s", before.ResourceVersion, got.ResourceVersion)
	}
}

// What somebody did after our write is seen with the newer object, and repaired.
func TestANewerObjectIsJudgedByWhatItShows(t *testing.T) {
	t.Parallel()
	d := under(t, granting(grant(one, "data.a")))
	live := d.there("shared")
	d.put(apply.Configured, one, live, d.note("shared", "a", "1"))
	d.Force("thief", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared"},"data":{"a":"stolen"}}`)
	_ = d.sent()
	d.put(apply.Unchanged, one, live, d.note("shared", "a", "1"))
	d.quiet()
	d.put(apply.Configured, one, read(d, live.DeepCopy(), "shared"), d.note("shared", "a", "1"))
	live = read(d, live, "shared")
	if live.Data["a"] != "1" {
		t.Errorf("a is %q", live.Data["a"])
	}
	d.Owns(live, string(one), "data.a")
}

// A birth that the cache does not show yet.
func TestABirthIsRemembered(t *testing.T) {
	t.Parallel()
	d := under(t, granting(grant(one, "data")))
	_ = d.sent()
	d.put(apply.Created, one, nil, d.note("n", "a", "1"))
	d.applied(1)
	d.put(apply.Unchanged, one, nil, d.note("n", "a", "1"))
	d.put(apply.Unchanged, one, (*corev1.ConfigMap)(nil), d.note("n", "a", "1"))
	d.applied(0)
	d.put(apply.Configured, one, nil, d.note("n", "a", "2"))
	d.applied(1)
}

func TestAheadIsWhatWeWroteAfterTheRead(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	older := d.server("echo", "")
	all := []ownership.Manager{contract.MCPServerFinalizer, contract.MCPServerWorkload, contract.MCPServerAddress}
	ahead := func(want bool, of *v1alpha1.MCPServer, managers ...ownership.Manager) {
		t.Helper()
		wait, err := d.applier.Ahead(t.Context(), of, managers...)
		d.Must(err, "asking")
		if got := wait > 0; got != want {
			t.Errorf("ahead of %s for %s is %t", of.ResourceVersion, managers, got)
		}
	}
	ahead(false, older, all...)
	d.put(apply.Configured, contract.MCPServerFinalizer, older, finalizer(older))
	held := read(d, older.DeepCopy(), "echo")
	_ = d.sent()
	ahead(true, older, all...)
	ahead(true, older, contract.MCPServerFinalizer)
	ahead(false, older, contract.MCPServerWorkload)
	ahead(false, older)
	ahead(false, held, all...)

	d.put(apply.Configured, contract.MCPServerAddress, held, v1alpha1ac.MCPServer("echo", d.Namespace).
		WithStatus(v1alpha1ac.MCPServerStatus().WithURL("http://x")))
	ahead(true, held, contract.MCPServerAddress)
	ahead(false, held, contract.MCPServerFinalizer)
	ahead(false, read(d, older.DeepCopy(), "echo"), all...)

	// Another incarnation has its own history, and another process none.
	successor := older.DeepCopy()
	successor.UID = "another"
	ahead(false, successor, all...)
	d.applier = d.process()
	ahead(false, older, all...)
}
