package probe

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// What spec.proxy.probe is where it does not say otherwise. A server that runs elsewhere is asked rarely: others run
// it, and count who calls.
const (
	defaultPeriod       = 30 * time.Second
	defaultRemotePeriod = 5 * time.Minute
	defaultTimeout      = 5 * time.Second
	defaultFailures     = 3
)

// watching is how a server is asked that has answered.
type watching struct {
	// period is how long after one question the next one is, 0 for none, and within how long each may take.
	period, within time.Duration
	// failures is how many in a row have no answer, or not that of before, until it is told.
	failures int32
}

func watchingOf(run runconfig.Target) watching {
	w := watching{defaultPeriod, defaultTimeout, defaultFailures}
	if run.Remote != nil {
		w.period = defaultRemotePeriod
	}
	if set := run.Proxy.Probe; set != nil {
		if set.PeriodSeconds != nil {
			w.period = time.Duration(*set.PeriodSeconds) * time.Second
		}
		w.within = cmp.Or(time.Duration(set.TimeoutSeconds)*time.Second, w.within)
		w.failures = cmp.Or(set.FailureThreshold, w.failures)
	}
	if bridge := run.Backend.Bridge; bridge != nil && bridge.Sessions > 0 {
		w.period = 0 // each question would start a process
	}
	return w
}

// pause is how long it is until the next question: proxies do not ask all at the same time.
func (w watching) pause() time.Duration {
	return w.period - time.Duration(rand.Int64N(int64(w.period/10)+1)) //nolint:gosec // nobody gains by guessing it
}

// watch asks a backend that has answered for as long as it runs: pods that are ready may hang, or answer something else
// than MCP. It returns whether the backend answers again after something else was told, with what was told first being
// known; else it ends with ctx, or at once where nothing is to be asked.
//
// From the first question without an answer what it told counts no more against what another proxy tells: it tells
// facts without a finding, and what it told before once that is so again.
//
// The question is server/discover, which costs a modern backend nothing. For a legacy one the proxy asks for a ping in
// the session that it holds for the runner, and begins another only where the backend does not know that one any more.
func (p *Prober) watch(
	ctx context.Context, logger *slog.Logger, known conditions.Finding, tell func(backend.Facts),
) (again bool) {
	set := watchingOf(p.Server)
	if set.period == 0 {
		return false
	}
	told, failed, doubts := known, int32(0), false
	for {
		select {
		case <-time.After(set.pause()):
		case <-ctx.Done():
			return false
		}
		found := p.once(ctx, set.within)
		// One that lets the runner in as little as before may say so in other words.
		bars := found.Status == metav1.ConditionTrue && told.Status == found.Status && told != answers(p.Server)
		switch {
		case ctx.Err() != nil:
			return false
		case found.Reason == "": // nothing can be known
			failed = 0
		case found == answers(p.Server) && told != found:
			return true
		case found == told, bars:
			failed = 0
			if doubts {
				doubts = false
				tell(backend.Facts{Answers: told})
			}
		default:
			if failed++; failed < set.failures {
				if !doubts && told.Status == metav1.ConditionTrue {
					doubts = true
					tell(backend.Facts{})
				}
				continue
			}
			if found.Status != metav1.ConditionTrue {
				logger.Info("the backend does not answer MCP any more", "detail", found.Message)
			}
			told, failed, doubts = found, 0, false
			tell(backend.Facts{Answers: found})
		}
	}
}

// once asks one question, and is what BackendAnswers is to say; the zero finding where nobody was asked.
func (p *Prober) once(ctx context.Context, within time.Duration) conditions.Finding {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	client, err := p.begin(ctx)
	defer client.end()
	switch r := client.last.Load(); {
	case err == nil:
		return answers(p.Server)
	case p.Server.Remote == nil && r.barred():
		return keptOut(r)
	default:
		found := unanswered(p.Server, r, client.explain(errors.Join(err, ctx.Err())), within)
		if found.Status == metav1.ConditionUnknown {
			return conditions.Finding{}
		}
		return found
	}
}
