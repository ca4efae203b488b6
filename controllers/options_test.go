package controllers

import (
	"maps"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// What is cached the process may watch, by the contract, and nothing else: a
// kind that is added here is a row there.
func TestTheCacheHoldsWhatTheContractLetsTheProcessWatch(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	options, err := CacheOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	cached := map[string]bool{"mcpservers.freehold.dev": true} // what the controller is for
	for kind := range options.ByObject {
		gvk, err := apiutil.GVKForObject(kind, scheme)
		if err != nil {
			t.Fatal(err)
		}
		cached[ownership.Object{GroupVersionKind: gvk}.Resource()+"."+gvk.Group] = true
	}
	watched := map[string]bool{}
	for _, right := range ownership.Freehold().Rights {
		if right.Identity == ownership.IdentityOperator && slices.Contains(right.Verbs, "watch") {
			watched[right.Resource+"."+right.Group] = true
		}
	}
	if !maps.Equal(cached, watched) {
		t.Errorf("cached is %v, and the contract lets the process watch %v", slices.Sorted(maps.Keys(cached)), slices.Sorted(maps.Keys(watched)))
	}
}
