package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// costRun is one method at work, with a namespace, a connection and a cache of its own.
type costRun struct {
	plane     *kit.Plane
	namespace string
	servers   int
	processes map[string]int
	requests  *requestCounter
	// lingers is how long the API server is listened to after a pass, until it has told the watches.
	lingers time.Duration
	// live reads from the API server, cached from the cache.
	live, cached client.Client
	// model is a server as the API server has it.
	model *v1alpha1.MCPServer
}

func (p *costRun) open(ctx context.Context) error {
	if err := p.plane.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}); err != nil {
		return err
	}
	p.model = &v1alpha1.MCPServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "model"}, Spec: v1alpha1.MCPServerSpec{Image: image(1)},
	}
	if err := p.plane.Client.Create(ctx, p.model); err != nil {
		return fmt.Errorf("creating a server: %w", err)
	}
	config := rest.CopyConfig(p.plane.Config)
	p.requests.wrap(config)
	informers, err := cache.New(config, cache.Options{
		Scheme: p.plane.Scheme, DefaultNamespaces: map[string]cache.Config{p.namespace: {}},
		ReaderFailOnMissingInformer: true,
	})
	if err != nil {
		return err
	}
	for _, kind := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
		if _, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	go func() { _ = informers.Start(ctx) }() // it ends with ctx
	if !informers.WaitForCacheSync(ctx) {
		return errors.New("the cache does not fill")
	}
	p.live, err = client.New(config, client.Options{Scheme: p.plane.Scheme})
	if err != nil {
		return err
	}
	p.cached, err = client.New(config,
		client.Options{Scheme: p.plane.Scheme, Cache: &client.CacheOptions{Reader: informers}})
	return err
}

// pass brings both objects of every server to what a version of it wants.
func (p *costRun) pass(ctx context.Context, converge converge, version int) error {
	return each(ctx, p.servers, func(i int) error {
		wanted, err := p.wanted(i, version)
		if err != nil {
			return err
		}
		for _, want := range wanted {
			have, ok := want.object.DeepCopyObject().(client.Object)
			if !ok {
				return fmt.Errorf("%T is no object", want.object)
			}
			if err := p.cached.Get(ctx, client.ObjectKeyFromObject(want.object), have); apierrors.IsNotFound(err) {
				have = nil
			} else if err != nil {
				return err
			}
			if err := converge(ctx, have, want); err != nil {
				return fmt.Errorf("%T of server %d: %w", want.object, i, err)
			}
		}
		return nil
	})
}

// wanted are the proxy's Deployment and Service of the i-th server.
func (p *costRun) wanted(i, version int) ([]child, error) {
	server := p.model.DeepCopy()
	server.Name = fmt.Sprintf("server-%04d", i)
	if version > 1 {
		server.Status.Workload = &v1alpha1.WorkloadStatus{Generation: int64(version - 1), Hash: "another"}
		server.Spec.Image = image(version)
		server.Spec.Proxy.Service = &v1alpha1.ProxyService{
			Annotations: map[string]string{"example.com/version": fmt.Sprint(version)},
		}
	}
	rendered, content, err := contentOf(server, nil)
	if err != nil {
		return nil, err
	}
	all, err := childrenOf(server, rendered, content)
	var wanted []child
	for _, c := range all {
		switch c.object.(type) {
		case *appsv1.Deployment, *corev1.Service:
			wanted = append(wanted, c)
		}
	}
	return wanted, err
}

// touch writes an annotation into every object, as somebody else does.
func (p *costRun) touch(ctx context.Context) error {
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+note+`":"here"}}}`))
	return each(ctx, p.servers, func(i int) error {
		wanted, err := p.wanted(i, 1)
		if err != nil {
			return err
		}
		for _, want := range wanted {
			err = errors.Join(err, p.plane.Client.Patch(ctx, want.object, patch, client.FieldOwner("kubectl-patch")))
		}
		return err
	})
}

// catchUp waits until the cache shows what the API server has.
func (p *costRun) catchUp(ctx context.Context) error {
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ServiceList{}} {
		if err := p.plane.Client.List(ctx, list, client.InNamespace(p.namespace)); err != nil {
			return err
		}
		stored, err := resourceVersions(list)
		for err == nil {
			if err = p.cached.List(ctx, list, client.InNamespace(p.namespace)); err != nil {
				break
			}
			var cached map[string]string
			if cached, err = resourceVersions(list); err == nil && maps.Equal(stored, cached) {
				break
			}
			err = errors.Join(err, pause(ctx, 10*time.Millisecond))
		}
		if err != nil {
			return fmt.Errorf("waiting for the cache: %w", err)
		}
	}
	return nil
}

func resourceVersions(list client.ObjectList) (map[string]string, error) {
	versions := map[string]string{}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err == nil {
			versions[object.GetName()] = object.GetResourceVersion()
		}
		return err
	})
	return versions, err
}

// use adds the processor time of every process so far to cpu, times sign.
func (p *costRun) use(cpu map[string]float64, sign float64) error {
	for name, pid := range p.processes {
		seconds, err := processorTime(pid)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		cpu[name] += sign * seconds
	}
	return nil
}
