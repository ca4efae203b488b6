package controllers

import (
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// What is cached the process may watch, by the contract, and nothing else: a kind that is added here is a row there.
func TestTheCacheHoldsWhatTheContractLetsTheProcessWatch(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	options, err := CacheOptions(&rest.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Of Events controllers/complaints keeps a few, and HTTPRoutes are of controllers/routes, which a cluster may lack.
	cached := map[string]bool{"events.": true, "httproutes." + contract.HTTPRoute.Group: true}
	for _, kind := range kinds.All() { // what the controllers are for
		cached[kind.Object.Resource()+"."+kind.Object.Group] = true
	}
	for kind := range options.ByObject {
		gvk, err := apiutil.GVKForObject(kind, scheme)
		if err != nil {
			t.Fatal(err)
		}
		cached[ownership.Object{GroupVersionKind: gvk}.Resource()+"."+gvk.Group] = true
	}
	watched := map[string]bool{}
	for _, right := range contract.Freehold().Rights {
		if right.Identity == contract.IdentityOperator && slices.Contains(right.Verbs, "watch") {
			watched[right.Resource+"."+right.Group] = true
		}
	}
	if !maps.Equal(cached, watched) {
		t.Errorf("cached is %v, and the contract lets the process watch %v", slices.Sorted(maps.Keys(cached)),
			slices.Sorted(maps.Keys(watched)))
	}
}

// What is written is read as its Go type, and what is not takes no memory.
func TestTheSchemeKnowsTheGroupsOfTheContract(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string]bool{}
	for _, grant := range contract.Freehold().Grants {
		groups[grant.Object.Group] = true
		if grant.Object != contract.HTTPRoute && !scheme.Recognizes(grant.Object.GroupVersionKind) {
			t.Errorf("the scheme does not know %s", grant.Object)
		}
	}
	for gvk := range scheme.AllKnownTypes() {
		if !groups[gvk.Group] {
			t.Errorf("the scheme knows %s, which nobody writes", gvk)
		}
	}
}

// A server whose passes failed all night is tried again soon after the API server answers.
func TestARetryIsNeverLongAway(t *testing.T) {
	limiter, longest := Options{}.controller().RateLimiter, time.Duration(0)
	if limiter == nil {
		t.Fatal("the framework's default waits up to 1,000 s")
	}
	for range 100 {
		longest = max(longest, limiter.When(reconcile.Request{}))
	}
	if longest != lastRetry {
		t.Errorf("the longest wait is %s, want %s", longest, lastRetry)
	}
}
