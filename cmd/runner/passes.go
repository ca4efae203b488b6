package main

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// notApplying is the line that says why a runner only serves.
const notApplying = "not applying, only serving"

// readTime is how long the first read of the cluster usually takes at most.
const readTime = 10 * time.Second

// askFirst is how long the first report waits for a backend that runs: most answer at
// once, and what another says is reported later.
const askFirst = 2 * time.Second

// applyAndReport applies the backend and reports on it until ctx ends. Calls
// are served whatever becomes of it.
func applyAndReport(ctx context.Context, s settings, logger *slog.Logger) {
	runner := &backend.Runner{Run: s.run, Env: s.env, EnvErr: s.envErr}
	if len(s.run.NotEnforced) == 0 {
		runner.AskFirst = askFirst
	}
	if err := runner.Disagreement(); err != nil {
		logger.Warn(notApplying, "error", err)
		return
	}
	config, err := ctrlconfig.GetConfig()
	if err != nil {
		logger.Error(notApplying, "error", err)
		return
	}
	config.UserAgent = "freehold-runner/" + version
	c, err := connect(config, runner)
	if err != nil {
		logger.Error(notApplying, "error", err)
		return
	}
	// The caches retry in silence.
	late := time.AfterFunc(readTime, func() { logger.Warn("cannot read from the API server, only serving") })
	err = c.watch(ctx, runner)
	late.Stop()
	if err != nil {
		if ctx.Err() == nil {
			logger.Error(notApplying, "error", err)
		}
		return
	}
	l := loop{
		runner: runner, wake: c.wake, logger: logger,
		ask:   func(ctx context.Context, tell func(backend.Facts)) { s.ask(ctx, logger, tell) },
		stand: s.stand,
	}
	l.run(ctx)
}

// retries are the pauses before a pass that failed is made again.
func retries() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 12, Cap: 5 * time.Minute}
}

// loop makes the passes of one runner.
type loop struct {
	runner *backend.Runner
	wake   <-chan struct{}
	// ask asks the backend what it is, and tells what it learned.
	ask func(ctx context.Context, tell func(backend.Facts))
	// stand is told what there is of the backend.
	stand  func(backend.Standing)
	logger *slog.Logger

	asked   backend.Start
	stopAsk context.CancelFunc
	said    said
}

// said is what the last pass said, which is not said again.
type said struct {
	waiting  string
	decision revision.Decision
	finding  conditions.Finding
	failed   string
}

// run makes a pass at once and after each wake, until ctx ends, and learns from
// the backend once for each of its starts. No timer wakes it but that of a pass
// that failed, or left fields to another manager.
func (l *loop) run(ctx context.Context) {
	learned, pause := make(chan backend.Facts), retries()
	l.stopAsk = func() {}
	for {
		report, err := l.runner.Pass(ctx)
		if ctx.Err() != nil {
			l.stopAsk()
			return
		}
		l.stand(report.Standing)
		var retry <-chan time.Time
		if again := next(report, err, &pause); again > 0 {
			retry = time.After(again)
		}
		l.say(report, err)
		l.learn(ctx, report, learned)
		select {
		case <-l.wake:
		case <-retry:
		case facts := <-learned:
			l.runner.Learn(facts)
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
func (l *loop) say(report backend.Report, err error) {
	for _, w := range report.Written {
		if c := w.Repaired; c != nil {
			l.logger.Info("repaired", "object", c.Object.String(), "objectName", c.Key.Name, "fields", c.Fields, "from",
				c.Others)
		}
		if t := w.TakenOver; t != nil {
			l.logger.Info("taken over", "object", t.Object.String(), "objectName", t.Key.Name, "from", t.From)
		}
		if r := w.Rewritten; r != nil {
			l.logger.Info("changed by admission", "object", r.Object.String(), "objectName", r.Key.Name, "fields", r.Fields)
		}
	}
	last := l.said
	l.said = said{waiting: report.Waiting, decision: report.Decision, finding: report.Finding}
	if err != nil {
		l.said.failed = err.Error()
	}
	if l.said.failed != "" && l.said.failed != last.failed {
		l.logger.Error("pass failed", "error", l.said.failed)
	}
	last.failed = l.said.failed
	switch {
	case l.said == last:
	case report.Waiting != "":
		l.logger.Info("waiting", "detail", report.Waiting)
	default:
		l.logger.Info("pass", "gate", string(report.Decision), "reason", report.Finding.Reason, "detail",
			report.Finding.Message)
	}
}

// learn asks the backend about itself when it has started anew. Pods that were
// not ready in between count as a start.
func (l *loop) learn(ctx context.Context, report backend.Report, learned chan<- backend.Facts) {
	if report.Start == l.asked || report.Waiting != "" && report.Start == (backend.Start{}) {
		return
	}
	l.asked = report.Start
	l.stopAsk()
	if report.Start == (backend.Start{}) {
		return
	}
	ctx, l.stopAsk = context.WithCancel(ctx)
	go l.ask(ctx, func(facts backend.Facts) {
		select {
		case learned <- facts:
		case <-ctx.Done():
		}
	})
}
