package main

import (
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// bare is the floor of a watch: how long a bare informer, which keeps objects whole, takes
// to show each change of the neighbour's server.
type bare struct {
	mu sync.Mutex
	// begun is when each change began that is not shown yet, by its number.
	begun  map[int]time.Time
	delays []float64
}

// handler is its ear at the informer.
func (b *bare) handler() toolscache.ResourceEventHandler {
	see := func(o any) {
		server, ok := o.(*v1alpha1.MCPServer)
		if !ok || server.Namespace != namespace || server.Name != quiet || len(server.Spec.Args) != 1 {
			return
		}
		shown, err := strconv.Atoi(server.Spec.Args[0])
		if err != nil {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		for turn, begun := range b.begun {
			if turn <= shown {
				b.delays = append(b.delays, time.Since(begun).Seconds())
				delete(b.begun, turn)
			}
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, o any) { see(o) }}
}

func (b *bare) begin(turn int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun[turn] = time.Now()
}

// most is the longest delay since it was called last, what is not shown yet included.
func (b *bare) most() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := append(b.delays, 0)
	for _, begun := range b.begun {
		all = append(all, time.Since(begun).Seconds())
	}
	b.delays = nil
	return slices.Max(all)
}

// closedWatches are those of kinds of ours that the API server has closed because they were
// read too slowly, whoever had them.
var closedWatches = regexp.MustCompile(`(?m)^apiserver_terminated_watchers_total\{[^}]*group="` +
	regexp.QuoteMeta(v1alpha1.SchemeGroupVersion.Group) + `"[^}]*\} (\S+)$`)

// ofServers is true for watches of servers.
func ofServers(c Count) bool { return c.Verb == "watch" && c.Resource == "mcpservers" }
