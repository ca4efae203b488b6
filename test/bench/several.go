package main

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

const (
	// several is how many reconcilers work on the same servers at once in rollout, as where a lease was lost.
	several = 4
	// lag is how late each of them learns of what has changed, so that they decide on the same old state.
	lag = 300 * time.Millisecond
)

// role is what a subject runs.
type role func(ctx context.Context, config *rest.Config, s settings, ready func()) error

// runSeveral runs a role several times over, each with a cache of its own that lags.
func runSeveral(run role) role {
	return func(ctx context.Context, config *rest.Config, s settings, ready func()) error {
		kit.Through(config, late)
		var up sync.WaitGroup
		ended := make(chan error, several)
		up.Add(several)
		for range several {
			go func() { ended <- run(ctx, rest.CopyConfig(config), s, up.Done) }()
		}
		go func() {
			up.Wait()
			ready()
		}()
		return <-ended
	}
}

// late carries requests, and has what watches show arrive late.
func late(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	response, err := next.RoundTrip(req)
	if err == nil && kit.IsWatch(req) {
		response.Body = delay(response.Body)
	}
	return response, err
}

// delayed is a body whose bytes arrive late.
type delayed struct {
	*io.PipeReader
	from io.Closer
}

func (d *delayed) Close() error {
	_ = d.PipeReader.Close()
	return d.from.Close()
}

func delay(from io.ReadCloser) *delayed {
	type arrived struct {
		at   time.Time
		data []byte
	}
	out, in := io.Pipe()
	chunks := make(chan arrived, 1<<12)
	go func() {
		defer close(chunks)
		for {
			data := make([]byte, 16<<10)
			n, err := from.Read(data)
			chunks <- arrived{time.Now(), data[:n]}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer in.Close()
		for c := range chunks {
			time.Sleep(time.Until(c.at.Add(lag)))
			_, _ = in.Write(c.data) // without a reader what is left goes nowhere
		}
	}()
	return &delayed{out, from}
}

// proxyOf answers as a proxy that has read the status of its server, and has no sessions.
func proxyOf(reader client.Reader) func(context.Context, *corev1.Pod) (runconfig.Routing, error) {
	return func(ctx context.Context, pod *corev1.Pod) (runconfig.Routing, error) {
		server := &v1alpha1.MCPServer{}
		key := client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[workload.LabelServer]}
		if err := reader.Get(ctx, key, server); err != nil {
			return runconfig.Routing{}, err
		}
		told := runconfig.Routing{ServerUID: string(server.UID), Since: time.Now().Add(-time.Hour)}
		if a := server.Status.Active; a != nil {
			told.Active = &runconfig.RoutedContent{Slot: a.Slot, Hash: a.Hash, Generation: a.Generation}
		}
		if r := server.Status.Rollout; r != nil && r.From != nil {
			told.Contents = append(told.Contents, runconfig.ContentUse{Slot: r.From.Slot, Hash: r.From.Hash})
		}
		return told, nil
	}
}
