package plan

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// place says that the content of the target gets the calls, once it is claimed: it replaces what runs in the slot
// that serves, or, where nothing was said before, in that in which a backend stands. It is stated also where nothing
// has changed, since an intent that leaves it out removes it; then nothing is sent. New content of the proxy alone
// changes nothing of it. It is of now only where other content or another slot is, so that who repairs the rest states
// the same again, which is limited.
func (m *maker) place() {
	if !m.s.Kind.Backend {
		return
	}
	want, last := v1alpha1.BackendContent{
		Slot: int32(m.s.Active), Hash: m.Digest.Backend, Generation: m.Target.Generation,
		Port: m.Digest.Port, Path: m.Digest.Path, Transport: m.Digest.Transport,
	}, m.s.Last.Active
	if last != nil && last.Hash == want.Hash {
		want.Generation = last.Generation
	}
	since := metav1.NewTime(m.s.Now)
	if last != nil && last.Slot == want.Slot && last.Hash == want.Hash {
		since = last.Since
	}
	m.always(WritePlan{v1alpha1.ActiveBackend{BackendContent: want, Since: since}})
}
