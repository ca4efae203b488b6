package snapshot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/successive"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// AskProxy reads what a proxy pod tells of where its calls go.
type AskProxy func(context.Context, *corev1.Pod) (runconfig.Routing, error)

// Routing is what the proxy pods of a server tell of where their calls go, also those that end. It is read while a
// rollout waits for that.
type Routing struct {
	// Told is what each has told that could be asked.
	Told []runconfig.Routing
	// Unknown is how many have told nothing, because they could not be reached, or are another server's.
	Unknown int
	// Why is an error of those, nil where there is none.
	Why error
	// At is when they were asked.
	At time.Time
}

// The bounds of asking: for how long one proxy, all of them, how many at a time, and how many at most. Others count as
// unknown.
const (
	askTimeout    = time.Second
	askAllTimeout = 5 * time.Second
	askAtOnce     = 8
	askMost       = 256
	// unreachable is for how long the proxies of a server are not asked of which none could be, twice as long each
	// time, and mostUnreachable for how long at most: a NetworkPolicy may refuse that, and each pass would wait for it.
	unreachable, mostUnreachable = 30 * time.Second, 10 * time.Minute
	// mostHeader is for whoever makes a pod with the labels of a proxy.
	mostHeader = 8 << 10
)

var errNoAddress = errors.New("it has no address")

// proxiesTold is what the proxies of a server have told last, in which rollout, and until when none is asked again.
type proxiesTold struct {
	routing Routing
	rollout string
	until   time.Time
	// silent is for how long that is where none could be asked, 0 where one could.
	silent time.Duration
}

// routing is what the proxies tell. Sessions that end slowly are not asked for in each pass, but where the answer is
// what a rollout is decided by.
func (r *Reader) routing(ctx context.Context, s *Snapshot) Routing {
	status := successive.Status{Rollout: s.Last.Rollout}
	if r.AskProxy == nil || !status.NeedsAnswers() {
		return Routing{}
	}
	known, _ := r.asked.Get(s.Object.GetUID())
	last, _ := known.(proxiesTold)
	if s.Now.Before(last.until) && (last.silent > 0 || last.rollout == s.Last.Rollout.ID && !r.decides) {
		return last.routing
	}
	next := proxiesTold{routing: r.ask(ctx, s), rollout: s.Last.Rollout.ID, until: s.Now.Add(status.AnswersLast(s.Now))}
	if len(next.routing.Told) == 0 && next.routing.Unknown > 0 {
		if last.silent == 0 {
			logf.FromContext(ctx).Info("no proxy can be asked where its calls go", "error", fmt.Sprint(next.routing.Why))
		}
		next.silent = min(max(unreachable, 2*last.silent), mostUnreachable)
		next.until = s.Now.Add(next.silent)
	}
	r.asked.Add(s.Object.GetUID(), next)
	return next.routing
}

// ask asks the proxy pods. They are listed live: a cache may not show the newest one, and keeps no addresses. Where
// that fails nothing is known of any.
func (r *Reader) ask(ctx context.Context, s *Snapshot) (routing Routing) {
	routing.At = s.Now
	pods := &corev1.PodList{}
	err := r.Live.List(ctx, pods, client.InNamespace(s.Object.GetNamespace()), client.MatchingLabels{
		workload.LabelServer: kinds.Key(s.Object), workload.LabelComponent: workload.ComponentProxy,
	}, client.Limit(askMost))
	if err != nil {
		logf.FromContext(ctx).Error(err, "cannot list the proxies to ask where their calls go")
		routing.Unknown, routing.Why = 1, err
		return routing
	}
	if pods.Continue != "" {
		routing.Unknown++
	}
	ctx, cancel := context.WithTimeout(ctx, askAllTimeout)
	defer cancel()
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		turns = make(chan struct{}, askAtOnce)
	)
	for i := range pods.Items {
		pod := &pods.Items[i]
		// One that has not started has no calls, and reads the status when it does.
		if pod.Status.Phase != corev1.PodRunning {
			continue
		}
		turns <- struct{}{}
		wait.Go(func() {
			defer func() { <-turns }()
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			told, err := r.AskProxy(ctx, pod)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				routing.Why = err
			}
			if err != nil || told.ServerUID != string(s.Object.GetUID()) {
				routing.Unknown++
				return
			}
			routing.Told = append(routing.Told, told)
		})
	}
	wait.Wait()
	return routing
}

// NewAskProxy asks by HTTP at the port for probes. A NetworkPolicy may refuse that.
func NewAskProxy() AskProxy {
	asks := &http.Client{
		// No proxy of the environment, and no connection is kept: each pod is asked rarely.
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: mostHeader},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context, pod *corev1.Pod) (runconfig.Routing, error) {
		if pod.Status.PodIP == "" { // which would be this host
			return runconfig.Routing{}, fmt.Errorf("asking proxy %s: %w", pod.Name, errNoAddress)
		}
		url := "http://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(runconfig.ProbePort)) + runconfig.RoutingPath
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return runconfig.Routing{}, fmt.Errorf("asking proxy %s: %w", pod.Name, err)
		}
		response, err := asks.Do(request)
		if err != nil {
			return runconfig.Routing{}, fmt.Errorf("asking proxy %s: %w", pod.Name, err)
		}
		defer response.Body.Close() //nolint:errcheck // it is only read
		if response.StatusCode != http.StatusOK {
			return runconfig.Routing{}, fmt.Errorf("asking proxy %s: HTTP %d", pod.Name, response.StatusCode)
		}
		return runconfig.ReadRouting(response.Body)
	}
}
