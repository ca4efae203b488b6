package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tenantSizes are how much of everything the tenant makes.
type tenantSizes struct {
	// made and more are servers that are made at once, follow how many follow one
	// configuration, edits changes a second, and large objects of each kind.
	made, more, follow, edits, large int
}

// floods are what a tenant does; one of no objects is left out.
func (s tenantSizes) floods() []flood {
	serve := func(prefix, more string, n int) func(context.Context, *world) error {
		return func(ctx context.Context, w *world) error {
			return w.inTenant(ctx, n, func(i int) string { return inPlace(fmt.Sprint(prefix, i), image(1), more) })
		}
	}
	all := []flood{
		{"rest", 0, func(context.Context, *world) error { return nil }},
		{"made", s.made, serve("made-", "", s.made)},
		{"edits", s.made, func(ctx context.Context, w *world) error { return s.edit(ctx, w) }},
		{"more", s.more, serve("more-", "", s.more)},
		{"followers", s.follow, func(ctx context.Context, w *world) error {
			if err := w.inTenant(ctx, 1, func(int) string { return permitting("principal") }); err != nil {
				return err
			}
			err := serve("follow-", "authzConfigRef: {name: company}", s.follow)(ctx, w)
			return pausedAfter(ctx, err, time.Minute)
		}},
		{"config", s.follow, func(ctx context.Context, w *world) error {
			err := w.inTenant(ctx, 1, func(int) string { return permitting(`principal == Client::"ann"`) })
			return pausedAfter(ctx, err, time.Minute)
		}},
		{"deep", s.large, func(ctx context.Context, w *world) error {
			return pausedAfter(ctx, w.inTenant(ctx, s.large/10, deepPolicies), 20*time.Second)
		}},
		{"large servers", s.large, func(ctx context.Context, w *world) error {
			return pausedAfter(ctx, w.oneByOne(ctx, s.large, func(i int) string { return largeServer(i, "a") }), time.Minute)
		}},
		{"large edits", s.large, func(ctx context.Context, w *world) error {
			return pausedAfter(ctx, w.oneByOne(ctx, s.large, func(i int) string { return largeServer(i, "b") }), time.Minute)
		}},
		{"large configurations", s.large, func(ctx context.Context, w *world) error {
			return pausedAfter(ctx, w.oneByOne(ctx, 3*s.large, func(i int) string { return largeObject(i%3, i/3) }), time.Minute)
		}},
	}
	return slices.DeleteFunc(all, func(f flood) bool { return f.servers == 0 && f.step != "rest" })
}

func pausedAfter(ctx context.Context, err error, d time.Duration) error {
	if err != nil {
		return err
	}
	return pause(ctx, d)
}

// largeEvery is how often a large object is written. At once they are more than an etcd with one
// of two cores takes: it answers nobody in time, in whatever namespace.
const largeEvery = 200 * time.Millisecond

// oneByOne is inTenant for large objects.
func (w *world) oneByOne(ctx context.Context, n int, text func(i int) string) error {
	ticks := time.NewTicker(largeEvery)
	defer ticks.Stop()
	for i := range n {
		if err := w.inTenant(ctx, 1, func(int) string { return text(i) }); err != nil {
			return err
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// edit changes the servers that are made, so many times a second, for a while.
func (s tenantSizes) edit(ctx context.Context, w *world) error {
	const seconds = 20
	ticks := time.NewTicker(time.Second / time.Duration(s.edits))
	defer ticks.Stop()
	for i := range seconds * s.edits {
		server := func(int) string {
			return inPlace(fmt.Sprint("made-", i%s.made), image(1), fmt.Sprintf("args: [%q]", fmt.Sprint(i)))
		}
		if err := w.inTenant(ctx, 1, server); err != nil {
			return err
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// inTenant applies objects 0 to n-1 in the tenant's namespace, workers at a time.
func (w *world) inTenant(ctx context.Context, n int, text func(i int) string) error {
	errs := make(chan error, n)
	workqueue.ParallelizeUntil(ctx, workers, n, func(i int) {
		object, err := w.read(text(i))
		if err == nil {
			object.SetNamespace(flooded)
			err = w.put(ctx, object)
		}
		errs <- err
	})
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// put applies an object as its user does.
func (w *world) put(ctx context.Context, object *unstructured.Unstructured) error {
	return insist(ctx, func() error {
		return w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner(user))
	})
}

// insist tries again where the API server fails, which waits for etcd as long as a request may take.
func insist(ctx context.Context, do func() error) error {
	failed := func(err error) bool {
		status := apierrors.APIStatus(nil)
		return errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError && ctx.Err() == nil
	}
	return retry.OnError(wait.Backoff{Duration: time.Second, Steps: 60}, failed, do)
}

func permitting(who string) string {
	return fmt.Sprintf("apiVersion: freehold.dev/v1alpha1\nkind: MCPAuthzConfig\nmetadata: {name: company}\n"+
		"spec: {policies: [{name: all, policy: 'permit(%s, action, resource);'}]}\n", who)
}

// deepPolicies are as many of 8 KB as one object may have that nest 4,000 levels deep.
func deepPolicies(i int) string {
	text := "permit(principal, action, resource) when { " + strings.Repeat("(", 4000) + "true" +
		strings.Repeat(")", 4000) + " };"
	return policies(fmt.Sprint("deep-", i), text)
}

func policies(name, text string) string {
	all := strings.Builder{}
	fmt.Fprintf(&all, "apiVersion: freehold.dev/v1alpha1\nkind: MCPAuthzConfig\nmetadata: {name: %s}\nspec:\n  "+
		"policies:\n", name)
	for i := range min(60, (380<<10)/len(text)) {
		fmt.Fprintf(&all, "  - {name: p%d, policy: '%s'}\n", i, text)
	}
	return all.String()
}

// largeServer is as large as the policy freehold-size lets in.
func largeServer(i int, filler string) string {
	argument := strings.Repeat(filler, 128<<10)
	return inPlace(fmt.Sprint("large-", i), image(1),
		"suspend: true\nargs:\n"+strings.Repeat("- "+argument+"\n", 2)+"- "+argument[:120<<10]+"\n")
}

// largeObject is one of the other kinds.
func largeObject(kind, i int) string {
	switch kind {
	case 0:
		return policies(fmt.Sprint("large-", i),
			"permit(principal, action, resource) when { ["+strings.Repeat("1,", 8000)+"1] == [] };")
	case 1:
		all := strings.Builder{}
		fmt.Fprintf(&all, "apiVersion: freehold.dev/v1alpha1\nkind: MCPOIDCConfig\nmetadata: {name: large-%d}\nspec:\n  "+
			"kubernetes:\n    serviceAccounts:\n", i)
		for j := range 256 {
			fmt.Fprintf(&all, "    - {namespace: %s, name: %s%d}\n", strings.Repeat("n", 63), strings.Repeat("a", 240), j)
		}
		return all.String()
	}
	remote := strings.Replace(policies(fmt.Sprint("large-", i),
		"permit(principal, action, resource) when { "+strings.Repeat("true || ", 2000)+"true };"),
		"kind: MCPAuthzConfig", "kind: MCPRemoteProxy", 1)
	head, list, _ := strings.Cut(remote, "spec:\n")
	return head + "spec:\n  url: https://mcp.example.com/mcp\n  suspend: true\n  authzConfig:\n" + "  " +
		strings.ReplaceAll(strings.TrimSuffix(list, "\n"), "\n", "\n  ") + "\n"
}
