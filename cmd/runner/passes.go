package main

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/freehold-dev/freehold/controllers/backend"
)

// notApplying is the line that says why a runner only serves.
const notApplying = "nothing will be applied, calls are served"

// readTime is how long the first read of the cluster usually takes at most.
const readTime = 10 * time.Second

// applyAndReport applies the backend and reports on it until ctx ends. Calls
// are served whatever becomes of it.
func applyAndReport(ctx context.Context, s settings, logger *slog.Logger) {
	runner := &backend.Runner{Run: s.run, Env: s.env, EnvErr: s.envErr}
	if err := runner.Disagreement(); err != nil {
		logger.Warn(notApplying, "why", err.Error())
		return
	}
	config, err := ctrlconfig.GetConfig()
	if err != nil {
		logger.Error(notApplying, "why", err.Error())
		return
	}
	config.UserAgent = "freehold-runner/" + version
	c, err := connect(config, runner)
	if err != nil {
		logger.Error(notApplying, "why", err.Error())
		return
	}
	// The caches retry in silence.
	late := time.AfterFunc(readTime, func() { logger.Warn("the API server cannot be read yet, calls are served") })
	err = c.watch(ctx, runner)
	late.Stop()
	if err != nil {
		if ctx.Err() == nil {
			logger.Error(notApplying, "why", err.Error())
		}
		return
	}
	l := loop{
		runner: runner, wake: c.wake, logger: logger,
		ask: func(ctx context.Context) (backend.Facts, bool) { return ask(ctx, s, logger) },
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
	// ask asks the backend what it is, false if it does not say.
	ask    func(context.Context) (backend.Facts, bool)
	logger *slog.Logger

	asked   backend.Start
	stopAsk context.CancelFunc
	said    backend.Report
}

// run makes a pass at once and after each wake, until ctx ends, and learns from
// the backend once for each of its starts. No timer wakes it but that of a pass
// that failed, or found fields of the backend contested.
func (l *loop) run(ctx context.Context) {
	learned, pause := make(chan backend.Facts), retries()
	l.stopAsk = func() {}
	for {
		report, err := l.runner.Pass(ctx)
		if ctx.Err() != nil {
			l.stopAsk()
			return
		}
		var retry <-chan time.Time
		if err != nil {
			l.logger.Error("pass", "error", err.Error())
			retry = time.After(pause.Step())
		} else {
			pause = retries()
			if report.Again > 0 {
				retry = time.After(report.Again)
			}
		}
		l.say(report)
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

// say logs what a pass found if it is not what the last one found.
func (l *loop) say(report backend.Report) {
	told := backend.Report{Waiting: report.Waiting, Verdict: report.Verdict, Finding: report.Finding}
	if told == l.said {
		return
	}
	l.said = told
	if report.Waiting != "" {
		l.logger.Info("waiting", "why", report.Waiting)
		return
	}
	l.logger.Info("pass", "gate", report.Verdict.String(), "reason", report.Finding.Reason, "message", report.Finding.Message)
}

// learn asks the backend about itself when it has started anew. Pods that were
// not ready in between count as a start.
func (l *loop) learn(ctx context.Context, report backend.Report, learned chan<- backend.Facts) {
	if report.Waiting != "" || report.Start == l.asked {
		return
	}
	l.asked = report.Start
	l.stopAsk()
	if report.Start == (backend.Start{}) {
		return
	}
	ctx, l.stopAsk = context.WithCancel(ctx)
	go func() {
		if facts, ok := l.ask(ctx); ok {
			select {
			case learned <- facts:
			case <-ctx.Done():
			}
		}
	}()
}
