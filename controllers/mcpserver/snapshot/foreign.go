package snapshot

import (
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// Foreign is what the pod templates of proxy and backend have of others.
func (s *Snapshot) Foreign() (found []conditions.Foreign) {
	if proxy := s.Proxy(); proxy.Exists() {
		found = append(found, s.foreign.of("proxy", proxy.Live, s.Kind.ChildrenManager, &proxy.Live.Spec.Template.Spec))
	}
	if backend := s.Backend(); backend.Exists() {
		found = append(found, s.foreign.of("backend", backend.Live, contract.RunnerBackend, &backend.Live.Spec.Template.Spec))
	}
	return found
}

// foreign remembers what was found in pod templates, by all that it depends on; the zero value remembers nothing.
type foreign struct{ found *lru.Cache }

func (f foreign) of(
	called string, live client.Object, manager ownership.Manager, pod *corev1.PodSpec,
) conditions.Foreign {
	if f.found == nil {
		return conditions.ForeignContent(called, live.GetManagedFields(), manager, *pod)
	}
	hash := sha256.New()
	spec, err := pod.Marshal()
	_, _ = fmt.Fprintf(hash, "%q %q %x %v\n", called, manager, spec, err) // a hash takes all
	for _, entry := range live.GetManagedFields() {
		_, _ = fmt.Fprintf(hash, "%q %q %q ", entry.Manager, entry.Operation, entry.Subresource)
		if entry.Subresource == "" {
			_, _ = fmt.Fprint(hash, entry.FieldsV1.GetRawString())
		}
	}
	key := [sha256.Size]byte(hash.Sum(nil))
	if known, ok := f.found.Get(key); ok {
		return known.(conditions.Foreign)
	}
	found := conditions.ForeignContent(called, live.GetManagedFields(), manager, *pod)
	f.found.Add(key, found)
	return found
}
