package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// tracker knows every server as its watch last showed it, and when the last of them came to answer a question.
type tracker struct {
	mu       sync.Mutex
	servers  map[string]*v1alpha1.MCPServer
	question func(*v1alpha1.MCPServer) bool
	open     map[string]bool // servers that do not answer the question
	closed   time.Time       // when the last did
	changed  chan struct{}
}

func newTracker() *tracker {
	return &tracker{servers: map[string]*v1alpha1.MCPServer{}, open: map[string]bool{}, changed: make(chan struct{}, 1)}
}

// handler is what an informer calls.
func (b *tracker) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    b.see,
		UpdateFunc: func(_, o any) { b.see(o) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if server, ok := o.(*v1alpha1.MCPServer); ok {
				b.record(server.Name, nil)
			}
		},
	}
}

func (b *tracker) see(o any) {
	if server, ok := o.(*v1alpha1.MCPServer); ok {
		b.record(server.Name, server)
	}
}

func (b *tracker) record(name string, server *v1alpha1.MCPServer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if server == nil {
		delete(b.servers, name)
		delete(b.open, name)
	} else {
		b.servers[name] = server
		b.judge(name, server)
	}
	b.closed = time.Now()
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func (b *tracker) judge(name string, server *v1alpha1.MCPServer) {
	if b.question == nil || b.question(server) {
		delete(b.open, name)
	} else {
		b.open[name] = true
	}
}

// await waits until exactly n servers are there and each answers the question with true, and returns when that was.
func (b *tracker) await(
	ctx context.Context, n int, what string, question func(*v1alpha1.MCPServer) bool,
) (time.Time, error) {
	b.mu.Lock()
	b.question, b.closed = question, time.Now()
	for name, server := range b.servers {
		b.judge(name, server)
	}
	b.mu.Unlock()
	progress := time.NewTicker(5 * time.Second)
	defer progress.Stop()
	for {
		b.mu.Lock()
		there, open, closed := len(b.servers), len(b.open), b.closed
		b.mu.Unlock()
		if there == n && open == 0 {
			return closed, nil
		}
		select {
		case <-b.changed:
		case <-progress.C:
			say("    %d of %d %s", there-open, n, what)
		case <-ctx.Done():
			return time.Time{}, errors.Join(fmt.Errorf("%d of %d servers %s", there-open, n, what), ctx.Err(), b.example())
		}
	}
}

// example is a server that does not answer, as an error.
func (b *tracker) example() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.open {
		status, _ := json.Marshal(b.servers[name].Status)
		return fmt.Errorf("for example %s: %s", name, status)
	}
	return nil
}

// settled reports whether everything has been said about a server of workload
// generation n: it is ready, its counts are told, and its runner has reported.
func settled(n int64) func(*v1alpha1.MCPServer) bool {
	return func(s *v1alpha1.MCPServer) bool {
		ready := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == s.Generation &&
			s.Status.URL != "" && s.Status.ReadyReplicas != nil && *s.Status.ReadyReplicas == *s.Spec.Replicas &&
			s.Status.Runtime != nil && s.Status.Runtime.Generation == n &&
			meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionBackendApplied)
	}
}

// gone is answered by no server.
func gone(*v1alpha1.MCPServer) bool { return false }
