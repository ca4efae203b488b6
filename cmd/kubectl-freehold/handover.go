package main

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/util/proto"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/apply"
)

// handOver moves the fields of a manager to another: the new one applies the live values, at the version that was
// read; then the old one releases them.
func (c *cli) handOver(ctx context.Context, u *unstructured.Unstructured, r releasing) error {
	if err := c.mayTake(r); err != nil {
		return err
	}
	fields, _, err := divided(u, r)
	if err != nil {
		return err
	}
	if fields.Empty() {
		return notHeld(u, r)
	}
	c.list(fmt.Sprintf("%q gets these fields", safe(r.to)), fields.Leaves())
	if err := c.ask(r, fmt.Sprintf("Hand the fields of %q in %s over to %q?", safe(r.manager), title(u),
		safe(r.to))); err != nil {
		return err
	}
	values, err := c.values(u, r)
	if err != nil {
		return err
	}
	applier, server, err := c.applier(u, r)
	if err != nil {
		return err
	}
	if _, err := applier.As(ownership.Manager(r.to)).Apply(ctx, u, values, apply.AtVersion, apply.KeepOwned); err != nil {
		return err
	}
	if r.dryRun {
		_, err = fmt.Fprintf(c.Out, "%s could be handed over (dry run)\n", title(u))
		return err
	}
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(u.GroupVersionKind())
	if err := server.Get(ctx, client.ObjectKeyFromObject(u), now); err != nil {
		return fmt.Errorf("reading %s again: %w", title(u), err)
	}
	fields, others, err := divided(now, r)
	if err != nil {
		return err
	}
	if err := allHeld(fields, others, u, r); err != nil {
		return err
	}
	if err := applier.As(ownership.Manager(r.manager)).Release(ctx, u); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Out, "%s handed over\n", title(u))
	return err
}

func (c *cli) mayTake(r releasing) error {
	switch {
	case r.to == r.manager:
		return fmt.Errorf("%q owns them already: name another manager with --to", r.to)
	case c.contract.Claims(r.to):
		return fmt.Errorf("%q is a field manager of Freehold, which takes its fields over itself: name another one with --to",
			r.to)
	case r.subresource != "" && r.subresource != "status":
		return fmt.Errorf("fields written through the subresource %q cannot be handed over: leave --to out", r.subresource)
	}
	return nil
}

func divided(u *unstructured.Unstructured, r releasing) (fields, others *fieldpath.Set, err error) {
	fields, others = &fieldpath.Set{}, &fieldpath.Set{}
	for _, entry := range u.GetManagedFields() {
		set, err := ownership.Fields(entry)
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", title(u), err)
		}
		if entry.Manager == r.manager && entry.Operation == metav1.ManagedFieldsOperationApply &&
			entry.Subresource == r.subresource {
			fields = fields.Union(set)
		} else {
			others = others.Union(set)
		}
	}
	return fields, others, nil
}

// allHeld returns an error if a field would be lost.
func allHeld(fields, others *fieldpath.Set, u *unstructured.Unstructured, r releasing) error {
	var alone []string
	fields.Leaves().Iterate(func(field fieldpath.Path) {
		if !others.Has(field) {
			alone = append(alone, ownership.Notation(field))
		}
	})
	if len(alone) == 0 {
		return nil
	}
	return fmt.Errorf("%q could not be given %s of %s: %q has given up nothing, and both own the other fields now",
		r.to, strings.Join(alone, ", "), title(u), r.manager)
}

// asOne is the object as if the manager had the fields of both: an apply is complete, so the new owner must repeat
// what it had.
func asOne(u *unstructured.Unstructured, r releasing) (*unstructured.Unstructured, error) {
	all := &fieldpath.Set{}
	var one metav1.ManagedFieldsEntry
	for _, entry := range u.GetManagedFields() {
		if entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != r.subresource ||
			entry.Manager != r.manager && entry.Manager != r.to {
			continue
		}
		set, err := ownership.Fields(entry)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", title(u), err)
		}
		if all = all.Union(set); entry.Manager == r.manager {
			one = entry
		}
	}
	fields, err := all.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", title(u), err)
	}
	one.FieldsV1 = &metav1.FieldsV1{}
	one.FieldsV1.SetRawBytes(fields)
	both := u.DeepCopy()
	both.SetManagedFields([]metav1.ManagedFieldsEntry{one})
	return both, nil
}

func (c *cli) values(u *unstructured.Unstructured, r releasing) (runtime.ApplyConfiguration, error) {
	kind, err := c.schema(u.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	both, err := asOne(u, r)
	if err != nil {
		return nil, err
	}
	values := &unstructured.Unstructured{}
	if err := managedfields.ExtractInto(both, *kind, r.manager, values, r.subresource); err != nil {
		return nil, fmt.Errorf("reading what %q holds of %s: %w", r.manager, title(u), err)
	}
	values.SetGroupVersionKind(u.GroupVersionKind())
	values.SetName(u.GetName())
	values.SetNamespace(u.GetNamespace())
	return client.ApplyConfigurationFromUnstructured(values), nil
}

func (c *cli) schema(kind schema.GroupVersionKind) (*typed.ParseableType, error) {
	discovery, err := c.flags.ToDiscoveryClient()
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	document, err := discovery.OpenAPISchema()
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", kind.Kind, err)
	}
	models, err := proto.NewOpenAPIData(document)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", kind.Kind, err)
	}
	parser, err := managedfields.NewGVKParser(models, false)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", kind.Kind, err)
	}
	if known := parser.Type(kind); known != nil {
		return known, nil
	}
	return nil, fmt.Errorf("the server publishes no schema of %s, without which items of lists cannot be told apart: "+
		"leave --to out, and let the other manager apply its own manifest", kind)
}
