// Package backendloop applies the backend of a server, reports on it, and has it asked once for each of its starts.
// Loop.Run is all of it: watch.go has what it sees of the cluster.
package backendloop

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// notApplying is the line that says why a runner only serves.
const notApplying = "not applying"

// unknownPause is the longest before it is looked again for where calls go, while that was never known.
const unknownPause = 30 * time.Second

// readTime is how long the first read of the cluster usually takes at most.
const readTime = 10 * time.Second

// askFirst is how long the first report waits for a backend that runs: most answer at
// once, and what another says is reported later.
const askFirst = 2 * time.Second

// Loop makes the passes of one runner.
type Loop struct {
	// Runner knows the run config and the revision. Run gives it its clients.
	Runner *backend.Runner
	// UserAgent is the program, as the API server logs it.
	UserAgent string
	// Ask asks the backend what it is, and tells what it learned.
	Ask func(ctx context.Context, log *slog.Logger, tell func(backend.Facts))
	// Compare asks the backend while its content is the candidate of a rollout, and tells what it saw, again where that
	// changes for good. It ends with ctx. Nil for none.
	Compare func(ctx context.Context, log *slog.Logger, tell func(v1alpha1.CandidateStatus))
	// AskServing asks what gets the calls while that is other content, which is called so, and tells what it learned. Nil
	// for nothing.
	AskServing func(ctx context.Context, log *slog.Logger, of runconfig.Backend, tell func(backend.Facts))
	// Observe takes note of what there is of the backend.
	Observe func(backend.Standing)
	Log     *slog.Logger

	// live says that the runner has its clients.
	live         atomic.Bool
	own, serving asking
	said         said
}

// asking are the questions about one start of a backend.
type asking struct {
	start backend.Start
	stop  context.CancelFunc // nil where nothing is asked
}

func (a *asking) end() {
	if a.stop != nil {
		a.stop()
		a.stop = nil
	}
}

// Run applies the backend and reports on it until ctx ends. Calls are served whatever becomes of it.
func (l *Loop) Run(ctx context.Context) {
	if len(l.Runner.Run.NotEnforced) == 0 {
		l.Runner.AskFirst = askFirst
	}
	disagreement := l.Runner.Disagreement()
	if disagreement != nil {
		l.Log.Warn(notApplying, "error", disagreement)
	}
	config, err := ctrlconfig.GetConfig()
	if err != nil {
		l.Log.Error(notApplying, "error", err)
		return
	}
	config.UserAgent = l.UserAgent
	c, err := connect(config, l.Runner)
	if err != nil {
		l.Log.Error(notApplying, "error", err)
		return
	}
	l.live.Store(true)
	c.late = func() { l.Log.Warn("cannot read from the API server") }
	read, err := c.watch(ctx, l.Runner)
	if err != nil {
		if ctx.Err() == nil {
			l.Log.Error(notApplying, "error", err)
		}
		return
	}
	if l.Runner.Run.Remote == nil {
		go l.follow(ctx, read.Reader, c.owner)
	}
	if disagreement == nil {
		l.passes(ctx, c.wake, read.keep)
	}
}

// follow has told where calls go each time that the server has changed, whatever the passes and the caches of slots do.
// Where the status does not say it, that is found out once. The first answer is the API server's: the list with which a
// cache begins may be older than a switch that this pod has acknowledged, and keeps in its file.
func (l *Loop) follow(ctx context.Context, owner client.Reader, changed <-chan struct{}) {
	pause, known, reader := retries(), false, l.Runner.Live
	for {
		standing, found, err := l.Runner.Pointer(ctx, reader)
		if err == nil && found && standing.Active == nil && !known {
			standing.Assumed, err = l.Runner.Assumed(ctx)
		}
		var retry <-chan time.Time
		switch {
		case err != nil:
			l.Log.Warn("it cannot be read where calls go", "error", err)
			again := pause.Step()
			if !known {
				again = min(again, unknownPause) // calls are refused meanwhile
			}
			retry = time.After(again)
		case found:
			l.Observe(standing)
			pause, known, reader = retries(), true, owner
		}
		select {
		case <-changed:
		case <-retry:
		case <-ctx.Done():
			return
		}
	}
}

// Refresh reads the server live, and has told what its status says: for a proxy that finds nobody where calls go,
// and whose watch may be broken. It reports whether it was read. It may run beside everything else.
func (l *Loop) Refresh(ctx context.Context) (read bool) {
	if !l.live.Load() {
		return false
	}
	pointer, found, err := l.Runner.Pointer(ctx, l.Runner.Live)
	if err != nil || !found {
		return false
	}
	l.Observe(pointer)
	return true
}

// retries are the pauses before a pass that failed is made again.
func retries() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 12, Cap: 5 * time.Minute}
}

// said is what the last pass said, which is not said again.
type said struct {
	waiting  string
	decision revision.Decision
	finding  conditions.Finding
	failed   string
}

// passes makes a pass at once and after each wake, until ctx ends, and learns from
// the backend once for each of its starts. No timer wakes it but that of a pass
// that failed, or left fields to another manager.
func (l *Loop) passes(ctx context.Context, wake <-chan struct{}, keep func(map[workload.Slot]backend.Stands)) {
	learned, pause := make(chan func()), retries()
	defer l.own.end()
	defer l.serving.end()
	for {
		report, err := l.Runner.Pass(ctx)
		if ctx.Err() != nil {
			return
		}
		l.Observe(backend.Standing{Slots: report.Standing.Slots}) // the rest is followed
		if report.Standing.Slots != nil {
			keep(report.Standing.Slots)
		}
		var retry <-chan time.Time
		if again := next(report, err, &pause); again > 0 {
			retry = time.After(again)
		}
		l.say(report, err)
		l.learn(ctx, report, learned)
		select {
		case <-wake:
		case <-retry:
		case learn := <-learned:
			learn()
		case <-ctx.Done():
		}
	}
}

// next is when another pass is due though nothing happens, 0 if none is. pause is
// that before what failed, or was refused, is tried again.
func next(report backend.Report, err error, pause **wait.Backoff) time.Duration {
	again := apply.ShortestWait(report.Again, apply.RetryDelay(err))
	if apply.RetryOf(err) != apply.RetryNow && apply.Refused(apply.OnlyRetried(err, apply.RetryLater)) == nil {
		*pause = retries()
		return again
	}
	return apply.ShortestWait(again, (*pause).Step())
}

// say logs what a pass repaired and took over, what admission changed, and what it
// found if that is not what the last one found.
func (l *Loop) say(report backend.Report, err error) {
	for _, w := range report.Written {
		if c := w.Repaired; c != nil {
			l.Log.Info("repaired", "object", c.Object.String(), "objectName", c.Key.Name, "fields", c.Fields, "from",
				c.Others)
		}
		if t := w.TakenOver; t != nil {
			l.Log.Info("taken over", "object", t.Object.String(), "objectName", t.Key.Name, "from", t.From)
		}
		if r := w.Rewritten; r != nil {
			l.Log.Info("changed by admission", "object", r.Object.String(), "objectName", r.Key.Name, "fields", r.Fields)
		}
	}
	last := l.said
	l.said = said{waiting: report.Waiting, decision: report.Decision, finding: report.Finding}
	if err != nil {
		l.said.failed = err.Error()
	}
	if l.said.failed != "" && l.said.failed != last.failed {
		l.Log.Error("pass failed", "error", l.said.failed)
	}
	last.failed = l.said.failed
	switch {
	case l.said == last:
	case report.Waiting != "":
		l.Log.Info("waiting", "detail", report.Waiting)
	default:
		l.Log.Info("pass", "gate", string(report.Decision), "reason", report.Finding.Reason, "detail",
			report.Finding.Message)
	}
}

// learn asks the backend about itself when it has started anew: the runner's content, as a candidate or as what gets
// the calls, and what gets the calls beside it. Pods that were not ready in between count as a start. What it learns is
// for the goroutine of the passes to tell the runner.
func (l *Loop) learn(ctx context.Context, report backend.Report, learned chan<- func()) {
	own, serving := report.Start, report.Serving
	if report.Waiting != "" && !report.Looked && own == (backend.Start{}) && serving.Start == (backend.Start{}) {
		return
	}
	l.about(ctx, &l.own, own, learned, func(ctx context.Context, send func(func())) {
		switch {
		case own.Rollout == "":
			l.Ask(ctx, l.Log, func(facts backend.Facts) {
				send(func() { l.Runner.Learn(facts) })
			})
		case l.Compare != nil:
			l.Compare(ctx, l.Log, func(seen v1alpha1.CandidateStatus) {
				send(func() { l.Runner.LearnCandidate(seen) })
			})
		}
	})
	if l.AskServing == nil {
		return
	}
	l.about(ctx, &l.serving, serving.Start, learned, func(ctx context.Context, send func(func())) {
		l.AskServing(ctx, l.Log, serving.Backend, func(facts backend.Facts) {
			facts.Content = serving.Start.Content
			send(func() { l.Runner.Learn(facts) })
		})
	})
}

// about has a start asked about until there is another one. What was learned of it is not of that one.
func (l *Loop) about(
	ctx context.Context, asked *asking, start backend.Start, learned chan<- func(),
	ask func(ctx context.Context, send func(func())),
) {
	if start == asked.start {
		return
	}
	if asked.start != (backend.Start{}) && l.Runner != nil {
		l.Runner.Learn(backend.Facts{Content: asked.start.Content})
	}
	asked.start = start
	asked.end()
	if start == (backend.Start{}) {
		return
	}
	ctx, asked.stop = context.WithCancel(ctx)
	go ask(ctx, func(learn func()) {
		select {
		case learned <- func() {
			if ctx.Err() == nil { // else it is of pods that have gone
				learn()
			}
		}:
		case <-ctx.Done():
		}
	})
}
