package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/test/kit"
)

// watching is for how long the objects of the scenario watch are changed.
const watching = 20 * time.Second

// watches measures how a watch follows changes of n of the largest servers, made as fast as the
// API server takes them: that of a bare informer, and that of the operator's cache.
func (b *bench) watches(ctx context.Context, n int) error {
	plane, err := kit.Start(ctx, kit.Alone())
	if err == nil {
		w := &world{Plane: plane}
		err = w.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: flooded}})
		if err == nil {
			err = w.oneByOne(ctx, n, func(i int) string { return largeServer(i, "a") })
		}
		for _, name := range []string{"bare", freehold} {
			if err == nil {
				err = b.watch(ctx, w, name, n)
			}
		}
	}
	return errors.Join(err, plane.Stop())
}

func (b *bench) watch(ctx context.Context, w *world, name string, n int) error {
	config, options, read := rest.CopyConfig(w.Config), cache.Options{}, newRequestCounter()
	read.wrap(config)
	if name == freehold {
		var err error
		if options, err = controllers.CacheOptions(config, nil); err != nil {
			return err
		}
	}
	options.Scheme = w.Scheme
	informers, err := cache.New(config, options)
	if err != nil {
		return fmt.Errorf("building a cache: %w", err)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	informer, err := informers.GetInformer(ctx, &v1alpha1.MCPServer{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	seen := make(chan struct{}, 1<<16)
	_, err = informer.AddEventHandler(
		toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { seen <- struct{}{} }})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	go func() { _ = informers.Start(ctx) }() // it ends with ctx
	if !informers.WaitForCacheSync(ctx) {
		return errors.New("the cache does not fill")
	}
	before, begin, written := read.read(), time.Now(), 0
	for ; time.Since(begin) < watching; written += workers {
		if err := each(ctx, workers, func(i int) error {
			return w.note(ctx, (written+i)%n, fmt.Sprint(name, written+i))
		}); err != nil {
			return err
		}
	}
	sent := time.Since(begin)
	for shown := 0; shown < written; {
		select {
		case <-seen:
			shown++
		case <-time.After(time.Minute): // after a list it shows several changes as one
			shown = written
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	all := read.read().since(before).where(ofServers).sum()
	b.record(Step{
		Scenario: "watch", Step: "large", Subject: name, Servers: n, Seconds: sent.Seconds(),
		Values: map[string]float64{
			"written": float64(written), "late": (time.Since(begin) - sent).Seconds(), "closed": float64(all.Requests),
			"received": float64(all.Received),
		},
	})
	return nil
}

// note changes the i-th of the large servers, and has the API server answer with little.
func (w *world) note(ctx context.Context, i int, text string) error {
	object := &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: flooded, Name: fmt.Sprint("large-", i)},
	}
	object.SetGroupVersionKind(contract.MCPServer.GroupVersionKind)
	patch := fmt.Sprintf(`{"metadata": {"annotations": {"example.com/note": %q}}}`, text)
	return insist(ctx, func() error {
		return w.Client.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(patch)))
	})
}

// watches are the rows of the scenario watch.
func (r *Report) watches(text *strings.Builder) {
	all := slices.DeleteFunc(slices.Clone(r.Steps), func(s Step) bool { return s.Scenario != "watch" })
	table(text, "watch\tobjects\tevents a second\tshown later s\tclosed\tMB read\t", all, func(s Step) string {
		v := s.Values
		return fmt.Sprintf("%s\t%d\t%.1f\t%.2f\t%.0f\t%.0f\t", s.Subject, s.Servers, v["written"]/s.Seconds, v["late"],
			v["closed"], v["received"]/megabyte)
	})
}
