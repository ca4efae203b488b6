package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers"
)

// method is a way to make objects as they are wanted. It is begun for a process that remembers nothing.
type method struct {
	name  string
	begin func(*costRun) converge
}

// converge makes an object as it is wanted. have is what the cache shows, nil where it shows none.
type converge func(ctx context.Context, have client.Object, want child) error

// methods are ours, server-side apply without a check, and what was done before server-side apply.
func methods() []method {
	return []method{
		{freehold, unchangedFirst},
		{"apply", func(p *costRun) converge { return p.apply }},
		{"patch", func(p *costRun) converge { return (&reference{Client: p.cached, live: p.live}).converge }},
		{"update", func(p *costRun) converge {
			return (&reference{Client: p.cached, live: p.live, updatesObjects: true}).converge
		}},
	}
}

// unchangedFirst sends nothing where managedFields and values say that it would change nothing.
func unchangedFirst(p *costRun) converge {
	writer := controllers.NewApplier(p.live, p.live).As(contract.MCPServerChildren)
	return func(ctx context.Context, have client.Object, want child) error {
		_, err := writer.Apply(ctx, have, want.intent)
		return err
	}
}

// apply applies by force, always.
func (p *costRun) apply(ctx context.Context, _ client.Object, want child) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want.intent)
	if err != nil {
		return fmt.Errorf("reading an intent: %w", err)
	}
	intent := &unstructured.Unstructured{Object: content}
	return p.live.Apply(ctx, client.ApplyConfigurationFromUnstructured(intent), client.FieldOwner("applier"),
		client.ForceOwnership)
}

// converge is what the reference does with a child.
func (r *reference) converge(ctx context.Context, _ client.Object, want child) error {
	return r.ensure(ctx, want.object)
}
