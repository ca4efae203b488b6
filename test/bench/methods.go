package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers"
)

// method is a way to make objects as they are wanted. It is begun for a process
// that remembers nothing.
type method struct {
	name  string
	begin func(*payer) converge
}

// converge makes an object as it is wanted. have is what the cache shows, nil
// where it shows none.
type converge func(ctx context.Context, have client.Object, want child) error

// methods are ours, what else is done with server-side apply, and what was done
// before it.
func methods() []method {
	return []method{
		{freehold, unchangedFirst},
		{"apply", func(p *payer) converge { return p.apply }},
		{"dry-run", func(p *payer) converge { return p.dryRunFirst }},
		{"hash", hashFirst},
		{"patch", func(p *payer) converge { return (&reference{Client: p.cached, live: p.live}).converge }},
		{"update", func(p *payer) converge {
			return (&reference{Client: p.cached, live: p.live, updatesObjects: true}).converge
		}},
	}
}

// unchangedFirst sends nothing where managedFields and values say that it would
// change nothing.
func unchangedFirst(p *payer) converge {
	writer := controllers.NewApplier(p.live, p.live).As(contract.MCPServerChildren)
	return func(ctx context.Context, have client.Object, want child) error {
		_, err := writer.Put(ctx, have, want.intent)
		return err
	}
}

// apply applies by force, always.
func (p *payer) apply(ctx context.Context, _ client.Object, want child) error {
	_, err := p.send(ctx, want)
	return err
}

// dryRunFirst applies if a dry run answers with another object than there is, as
// Flux does.
func (p *payer) dryRunFirst(ctx context.Context, have client.Object, want child) error {
	if have != nil {
		would, err := p.send(ctx, want, client.DryRunAll)
		if err != nil {
			return err
		}
		if same, err := same(would, have); same || err != nil {
			return err
		}
	}
	return p.apply(ctx, have, want)
}

// same reports whether a dry run would leave an object as it is.
func same(would *unstructured.Unstructured, have client.Object) (bool, error) {
	after, ok := reflect.New(reflect.TypeOf(have).Elem()).Interface().(client.Object)
	if !ok {
		return false, fmt.Errorf("%T is no object", have)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(would.Object, after); err != nil {
		return false, fmt.Errorf("reading the answer to a dry run: %w", err)
	}
	after.GetObjectKind().SetGroupVersionKind(have.GetObjectKind().GroupVersionKind())
	return equality.Semantic.DeepEqual(after, have), nil
}

// hashFirst remembers intents whose apply changed nothing, and sends none that it
// remembers for the resourceVersion that it reads, as Cluster API does.
func hashFirst(p *payer) converge {
	var known sync.Map // by object
	type request struct {
		intent          [sha256.Size]byte
		resourceVersion string
	}
	return func(ctx context.Context, have client.Object, want child) error {
		text, err := json.Marshal(want.intent)
		if err != nil {
			return err
		}
		name, now := fmt.Sprintf("%T %s", want.object, want.object.GetName()), request{intent: sha256.Sum256(text)}
		if have != nil {
			now.resourceVersion = have.GetResourceVersion()
		}
		if last, ok := known.Load(name); ok && last == now {
			return nil
		}
		answer, err := p.send(ctx, want)
		if err == nil && answer.GetResourceVersion() == now.resourceVersion {
			known.Store(name, now)
		}
		return err
	}
}

// converge is what the reference does with a child.
func (r *reference) converge(ctx context.Context, _ client.Object, want child) error {
	return r.ensure(ctx, want.object)
}

// send applies by force, and returns what the API server answers.
func (p *payer) send(ctx context.Context, want child, opts ...client.ApplyOption) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want.intent)
	if err != nil {
		return nil, fmt.Errorf("reading an intent: %w", err)
	}
	answer := &unstructured.Unstructured{Object: content}
	opts = append(opts, client.FieldOwner("applier"), client.ForceOwnership)
	return answer, p.live.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), opts...)
}
