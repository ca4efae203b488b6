package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// floorOfAChange is the subject for servers that are ready. Where their MCPAuthzConfig or
// their own spec changes, it sends to each the applies that Freehold sends, in their order;
// one that is deleted it lets go at once, and leaves all else to the garbage collector.
const floorOfAChange = "floor-of-a-change"

func runFloorOfAChange(ctx context.Context, config *rest.Config, s settings, ready func()) error {
	return runFloorWith(ctx, config, s, ready, func(f *floor, ctx context.Context, informers cache.Cache) error {
		c := &changedFloor{floor: f, first: map[types.UID]int64{}}
		return f.hear(ctx, informers, map[client.Object]func(any){
			&v1alpha1.MCPServer{}: c.told, &v1alpha1.MCPAuthzConfig{}: c.changed, &appsv1.Deployment{}: c.rolled,
		})
	})
}

// changedFloor is told of servers and of the configuration when they change, and of proxies
// until they have been replaced.
type changedFloor struct {
	*floor
	// first is the generation of a configuration as it was found.
	first map[types.UID]int64
}

// told takes a server as it is, or as it has become.
func (c *changedFloor) told(o any) {
	server, ok := o.(*v1alpha1.MCPServer)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(server)
	known := c.servers[key]
	switch {
	case known == nil:
	case server.DeletionTimestamp != nil && known.DeletionTimestamp == nil:
		c.turns <- func(ctx context.Context) error {
			return c.send(ctx, []statement{{contract.MCPServerFinalizer, intentOf(server)}})
		}
	case server.DeletionTimestamp == nil && server.Generation != known.Generation:
		c.take(server, nil)
	default:
		return // its status
	}
	c.servers[key] = server
}

// take gives a server content that is new.
func (c *changedFloor) take(server *v1alpha1.MCPServer, policies frame.Set) {
	c.turns <- func(ctx context.Context) error {
		applies, err := beforeRollout(server, policies)
		if err != nil {
			return err
		}
		return c.send(ctx, applies)
	}
}

// changed gives each server the content of the configuration.
func (c *changedFloor) changed(o any) {
	config, ok := o.(*v1alpha1.MCPAuthzConfig)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if first, known := c.first[config.UID]; !known || first == config.Generation {
		c.first[config.UID] = config.Generation
		return
	}
	policies := registry.Read(config)
	for _, server := range c.servers {
		c.take(server, policies)
	}
	c.first[config.UID] = config.Generation
}

// rolled reports a server whose proxies were replaced.
func (c *changedFloor) rolled(o any) {
	d, ok := o.(*appsv1.Deployment)
	if !ok || d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != d.Status.Replicas ||
		d.Status.AvailableReplicas == 0 {
		return
	}
	key := types.NamespacedName{Namespace: d.Namespace, Name: d.Labels[workload.LabelServer]}
	now, err := revision.Of(d.Annotations)
	c.mu.Lock()
	defer c.mu.Unlock()
	server := c.servers[key]
	if err != nil || server == nil || c.finished[key] || now.Generation == server.Status.Workload.Generation {
		return
	}
	c.finished[key] = true
	c.turns <- func(ctx context.Context) error {
		return c.send(ctx, []statement{{contract.MCPServerConditions, ready(server)}})
	}
}

func beforeRollout(server *v1alpha1.MCPServer, policies frame.Set) ([]statement, error) {
	rendered, content, err := contentOf(server, policies)
	if err != nil {
		return nil, err
	}
	proxy, err := rendered.Proxy(content.Workload.Generation)
	if err != nil {
		return nil, err
	}
	backend, err := newBackend(server, rendered, content)
	if err != nil {
		return nil, err
	}
	claim := claimOf(content)
	return append([]statement{
		{contract.MCPServerConditions, found(server, map[string]conditions.Finding{
			v1alpha1.ConditionReady:       conditions.False(v1alpha1.ReasonUpdating, "waiting for pods with the new content"),
			v1alpha1.ConditionReconciling: conditions.True(v1alpha1.ReasonUpdating, "waiting for pods with the new content"),
			v1alpha1.ConditionAccepted:    conditions.True(v1alpha1.ReasonAccepted, ""),
		})},
		{contract.MCPServerWorkload, intentOf(server).WithStatus(v1alpha1ac.MCPServerStatus().WithWorkload(claim))},
		{contract.MCPServerChildren, proxy},
	}, backend...), nil
}

func ready(server *v1alpha1.MCPServer) *v1alpha1ac.MCPServerApplyConfiguration {
	return found(server, map[string]conditions.Finding{
		v1alpha1.ConditionReady:    conditions.True(v1alpha1.ReasonReady, ""),
		v1alpha1.ConditionAccepted: conditions.True(v1alpha1.ReasonAccepted, ""),
	})
}
