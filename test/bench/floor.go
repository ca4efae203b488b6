package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// floor is what any operator that applies these objects must at least send: for each server the applies that Freehold
// sends, in their order, and nothing that looks, compares, checks or remembers. It knows that a server is new and that
// a backend is ready, because it is told once; it never asks. A test holds its writes to be Freehold's.
type floor struct {
	contract ownership.Contract
	// clients are by identity, as which the operator's process writes.
	clients map[string]client.Client
	turns   chan func(context.Context) error

	mu       sync.Mutex
	servers  map[types.NamespacedName]*v1alpha1.MCPServer
	finished map[types.NamespacedName]bool
}

// statement is one intent, and who states it.
type statement struct {
	manager ownership.Manager
	intent  runtime.ApplyConfiguration
}

func runFloor(ctx context.Context, config *rest.Config, s settings, ready func()) error {
	return runFloorWith(ctx, config, s, ready, (*floor).listen)
}

// runFloorWith runs a floor that listens to what it has to be told.
func runFloorWith(
	ctx context.Context, config *rest.Config, s settings, ready func(),
	listen func(*floor, context.Context, cache.Cache) error,
) error {
	scheme, err := controllers.NewScheme()
	if err != nil {
		return err
	}
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	ours, err := labels.Parse(workload.LabelServer)
	if err != nil {
		return err
	}
	informers, err := cache.New(config,
		cache.Options{Scheme: scheme, Mapper: direct.RESTMapper(), ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.MCPServer{}: {}, &appsv1.StatefulSet{}: {Label: ours}, &appsv1.Deployment{}: {Label: ours},
		}})
	if err != nil {
		return fmt.Errorf("building informers: %w", err)
	}
	f := &floor{
		contract: contract.Freehold(), clients: map[string]client.Client{},
		turns:   make(chan func(context.Context) error, 1<<16),
		servers: map[types.NamespacedName]*v1alpha1.MCPServer{}, finished: map[types.NamespacedName]bool{},
	}
	for _, identity := range contract.Controllers() {
		as := rest.CopyConfig(config)
		as.Impersonate.UserName = "system:serviceaccount:" + kit.SystemNamespace + ":" + identity
		if f.clients[identity], err = client.New(as,
			client.Options{Scheme: scheme, Mapper: direct.RESTMapper()}); err != nil {
			return fmt.Errorf("building a client: %w", err)
		}
	}
	if err := listen(f, ctx, informers); err != nil {
		return err
	}
	failed := make(chan error, 1)
	for range s.Workers {
		go f.work(ctx, failed)
	}
	go func() { failed <- informers.Start(ctx) }()
	if informers.WaitForCacheSync(ctx) {
		ready()
	}
	return <-failed
}

func (f *floor) listen(ctx context.Context, informers cache.Cache) error {
	return f.hear(ctx, informers, map[client.Object]func(any){
		&v1alpha1.MCPServer{}: f.appeared,
		&appsv1.StatefulSet{}: f.moved,
	})
}

// hear tells what appears of each kind, and what changes.
func (f *floor) hear(ctx context.Context, informers cache.Cache, kinds map[client.Object]func(any)) error {
	for kind, handle := range kinds {
		informer, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching: %w", err)
		}
		on := toolscache.ResourceEventHandlerFuncs{AddFunc: handle, UpdateFunc: func(_, o any) { handle(o) }}
		if _, err := informer.AddEventHandler(on); err != nil {
			return fmt.Errorf("watching: %w", err)
		}
	}
	return nil
}

func (f *floor) work(ctx context.Context, failed chan<- error) {
	for {
		select {
		case turn := <-f.turns:
			if err := turn(ctx); err != nil && ctx.Err() == nil {
				failed <- err
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// appeared gives a new server all that stands before its backend does.
func (f *floor) appeared(o any) {
	server, ok := o.(*v1alpha1.MCPServer)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.servers[client.ObjectKeyFromObject(server)] != nil {
		return
	}
	f.servers[client.ObjectKeyFromObject(server)] = server
	f.turns <- func(ctx context.Context) error {
		applies, err := beforeBackend(server)
		if err != nil {
			return err
		}
		return f.send(ctx, applies)
	}
}

// moved reports a server whose backend became ready.
func (f *floor) moved(o any) {
	set, ok := o.(*appsv1.StatefulSet)
	if !ok || set.Status.ReadyReplicas == 0 {
		return
	}
	key := types.NamespacedName{Namespace: set.Namespace, Name: set.Labels[workload.LabelServer]}
	f.mu.Lock()
	defer f.mu.Unlock()
	server := f.servers[key]
	if server == nil || f.finished[key] {
		return
	}
	f.finished[key] = true
	f.turns <- func(ctx context.Context) error { return f.send(ctx, afterBackend(server)) }
}

func (f *floor) send(ctx context.Context, applies []statement) error {
	for _, a := range applies {
		var err error
		as := f.clients[f.contract.Identity(a.manager)]
		if status, ok := a.intent.(*v1alpha1ac.MCPServerApplyConfiguration); ok && status.Status != nil {
			err = as.Status().Apply(ctx, a.intent, client.FieldOwner(a.manager), client.ForceOwnership)
		} else {
			err = as.Apply(ctx, a.intent, client.FieldOwner(a.manager), client.ForceOwnership)
		}
		if err != nil {
			return fmt.Errorf("applying as %s: %w", a.manager, err)
		}
	}
	return nil
}

func beforeBackend(server *v1alpha1.MCPServer) ([]statement, error) {
	rendered, content, err := contentOf(server, nil)
	if err != nil {
		return nil, err
	}
	owner := workload.OwnerOf(server)
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
		{contract.MCPServerFinalizer, intentOf(server).WithFinalizers(contract.Finalizer)},
		{contract.MCPServerWorkload, intentOf(server).WithStatus(v1alpha1ac.MCPServerStatus().WithWorkload(claim))},
		{contract.MCPServerChildren, workload.ServiceAccount(owner)},
		{contract.RBACChildren, workload.Role(owner)},
		{contract.RBACChildren, workload.RoleBinding(owner)},
		{contract.MCPServerChildren, workload.ProxyService(owner, server.Spec.Proxy)},
		{contract.MCPServerChildren, workload.SessionSecret(owner, content.Proxy.SessionSecret, rand.Text())},
		{contract.MCPServerChildren, proxy},
		{contract.MCPServerConditions, found(server, map[string]conditions.Finding{
			v1alpha1.ConditionReady: conditions.False(v1alpha1.ReasonStarting,
				"waiting for the proxy and its backend to become ready"),
			v1alpha1.ConditionReconciling: conditions.True(v1alpha1.ReasonStarting,
				"waiting for the proxy and its backend to become ready"),
			v1alpha1.ConditionAccepted: conditions.True(v1alpha1.ReasonAccepted, ""),
		})},
	}, backend...), nil
}

// newBackend keeps the content of a backend that is new, and has calls go there; nil for one that runs.
func newBackend(
	server *v1alpha1.MCPServer, rendered workload.Rendered, content runconfig.RunConfig,
) ([]statement, error) {
	if active := server.Status.Active; active != nil && active.Hash == content.Rendering.Backend {
		return nil, nil
	}
	kept, err := rendered.StoredContent(server, content.Workload.Generation)
	return []statement{
		{contract.MCPServerChildren, kept},
		{contract.MCPServerPlan, intentOf(server).WithStatus(v1alpha1ac.MCPServerStatus().WithActive(
			v1alpha1ac.ActiveBackend().WithSlot(int32(workload.Slot1)).WithHash(content.Rendering.Backend).
				WithGeneration(content.Workload.Generation).WithPort(content.Backend.PodPort()).
				WithPath(content.Backend.Path).WithTransport(server.Spec.Transport).WithSince(server.CreationTimestamp)))},
	}, err
}

func afterBackend(server *v1alpha1.MCPServer) []statement {
	return []statement{
		{contract.MCPServerConditions, ready(server)},
		{contract.MCPServerAddress, intentOf(server).WithStatus(v1alpha1ac.MCPServerStatus().
			WithURL(workload.URL(workload.OwnerOf(server), server.Spec.Proxy, server.Spec.Path)).
			WithReplicas(*server.Spec.Replicas).WithReadyReplicas(*server.Spec.Replicas).
			WithSelector(labels.SelectorFromSet(workload.Selector(server.Name, workload.ComponentBackend)).String()))},
	}
}

// contentOf is what runs for a server with policies that it refers to, under the number that it has or is to get.
func contentOf(server *v1alpha1.MCPServer, policies frame.Set) (workload.Rendered, runconfig.RunConfig, error) {
	rendered := workload.Render(workload.Input{Object: server, Configs: policies},
		podtemplate.Release{RunnerImage: runnerImage})
	if len(rendered.Problems) > 0 {
		return rendered, rendered.Content, fmt.Errorf("rendering %s: %s", server.Name, rendered.Problems[0])
	}
	return rendered, rendered.Claimed(
		claimed(server.Status.Workload, rendered.Content.Proxy.SessionSecret, rendered.Hash).Generation), nil
}

// claimed is the number of content after another.
func claimed(was *v1alpha1.WorkloadStatus, sessions, hash string) *v1alpha1.WorkloadStatus {
	switch {
	case was == nil:
		return &v1alpha1.WorkloadStatus{Generation: 1, Hash: hash, SessionSecret: sessions}
	case was.Hash == hash:
		return was
	}
	return &v1alpha1.WorkloadStatus{Generation: was.Generation + 1, Hash: hash, SessionSecret: sessions}
}

// claimOf states the claim of a content.
func claimOf(content runconfig.RunConfig) *v1alpha1ac.WorkloadStatusApplyConfiguration {
	return v1alpha1ac.WorkloadStatus().WithGeneration(content.Workload.Generation).WithHash(content.Workload.Hash).
		WithSessionSecret(content.Proxy.SessionSecret)
}

func intentOf(server *v1alpha1.MCPServer) *v1alpha1ac.MCPServerApplyConfiguration {
	return v1alpha1ac.MCPServer(server.Name, server.Namespace)
}

func found(server *v1alpha1.MCPServer, all map[string]conditions.Finding) *v1alpha1ac.MCPServerApplyConfiguration {
	status := v1alpha1ac.MCPServerStatus().WithObservedGeneration(server.Generation)
	for _, t := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionAccepted} {
		if f, ok := all[t]; ok {
			status.WithConditions(conditions.Stamp(nil, t, f, server.Generation, time.Now()))
		}
	}
	return intentOf(server).WithStatus(status)
}
