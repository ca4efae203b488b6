package probe

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
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

// rare is after how many periods the lists are asked for too, and how many a server gets at most which asks for a
// pause.
const rare = 20

// pause is how long it is until the next question: proxies do not ask all at the same time. Where the last one failed,
// a server that is asked rarely is asked sooner.
func (w watching) pause(failed bool) time.Duration {
	period := w.period
	if failed {
		period = min(period, defaultPeriod)
	}
	return period - time.Duration(rand.Int64N(int64(period/10)+1)) //nolint:gosec // nobody gains by guessing it
}

// watch asks a backend that has answered for as long as it runs: pods that are ready may hang, or answer something else
// than MCP. It returns whether the backend answers again after something else was told, with what was told first being
// known; else it ends with ctx, or at once where nothing is to be asked.
//
// A call of a client that was answered since the last question is as good as one: none is sent then, but that for the
// lists. The question is server/discover, which costs a modern backend nothing. For a legacy one the proxy asks for a
// ping in the session that it holds for the runner, and begins another only where the backend does not know that one
// any more.
func (p *Prober) watch(
	ctx context.Context, logger *slog.Logger, known backend.Facts, tell func(backend.Facts),
) (again bool) {
	set := watchingOf(p.Server)
	if set.period == 0 {
		return false
	}
	w := &watch{
		log: logger, tell: tell, failures: set.failures, works: answers(p.Server), busy: tooMany(namesOf(p.Server)),
		alone: conditions.True(v1alpha1.ReasonAnswers, namesOf(p.Server).at+" answers callers, and not the question of the "+
			"proxy, so what it offers is not known"),
		known: known, told: known.Answers,
	}
	asked, pause := time.Now(), func() time.Duration {
		return max(set.pause(w.failed > 0 || w.isDown()), min(p.pause, rare*set.period))
	}
	for n := 1; p.rest(ctx, pause(), asked, w.isDown()); n++ {
		since := asked
		asked = time.Now()
		if n%rare != 0 && p.heard(since) {
			p.pause = 0
			w.heard()
			continue
		}
		if facts := p.once(ctx, set.within, n%rare == 0); ctx.Err() == nil && w.found(facts) {
			return true
		}
	}
	return false
}

// watch is what is told of a backend that has answered.
type watch struct {
	log  *slog.Logger
	tell func(backend.Facts)
	// failures are how many in a row have no answer, or not that of before, until it is told.
	failures int32
	// works, busy and alone are what is said of one that answers, that wants to be asked less often, and that answers
	// callers alone.
	works, busy, alone conditions.Finding
	// refuses is the reason for which that one does not answer the question.
	refuses string
	// known is what was told of it first, and told the finding that was told last.
	known backend.Facts
	told  conditions.Finding
	// failed is how many questions in a row had no such answer. Doubts says that it was told of the first of them: what
	// was told before counts no more then against what another proxy tells.
	failed int32
	doubts bool
}

func (w *watch) isDown() bool { return w.told.Status != metav1.ConditionTrue }

// heard takes note of a client's call that was answered.
func (w *watch) heard() {
	if reason := w.told.Reason; w.isDown() && reason != v1alpha1.ReasonNotAnswering {
		w.says(w.alone) // what is wrong may be the question, and is so still
		w.refuses = reason
	} else if w.isDown() {
		w.says(w.works)
	}
	w.stays()
}

// found takes note of what a question found. It reports whether the backend has to be asked what it is.
func (w *watch) found(facts backend.Facts) (again bool) {
	found := facts.Answers
	isUp := found.Status == metav1.ConditionTrue
	switch {
	case found.Reason == "": // nothing can be known
		w.failed = 0
	case found == w.works && (w.told != found || len(w.known.ProtocolVersions) == 0):
		return true
	case found == w.told, !isUp && found.Reason == w.refuses,
		isUp && !w.isDown() && (w.told != w.works || found == w.busy):
		// One that lets the runner in as little as before may say so in other words.
		w.stays()
		w.counts(facts)
	case isUp && w.isDown():
		w.says(found)
	default:
		if w.failed++; w.failed < w.failures {
			if !w.doubts && !w.isDown() {
				w.doubts = true
				w.tell(backend.Facts{})
			}
			return false
		}
		if !isUp {
			w.log.Info("the backend does not answer MCP any more", "detail", found.Message)
		}
		w.says(found)
	}
	return false
}

// says tells another finding.
func (w *watch) says(found conditions.Finding) {
	w.told, w.failed, w.doubts, w.refuses = found, 0, false, ""
	w.tell(backend.Facts{Answers: found})
}

// stays takes note that all is as it was told.
func (w *watch) stays() {
	w.failed = 0
	if w.doubts {
		w.doubts = false
		w.tell(backend.Facts{Answers: w.told})
	}
}

// counts tells what the backend offers where that was asked for and is not what it was.
func (w *watch) counts(facts backend.Facts) {
	now := w.known
	now.Server = cmp.Or(facts.Server, now.Server)
	now.Tools = cmp.Or(facts.Tools, now.Tools)
	now.Prompts, now.Resources = cmp.Or(facts.Prompts, now.Prompts), cmp.Or(facts.Resources, now.Resources)
	if !reflect.DeepEqual(now, w.known) {
		w.known = now
		now.Answers = w.told
		w.tell(now)
	}
}

// heard reports whether a call of a client has been answered since.
func (p *Prober) heard(since time.Time) bool { return p.Heard != nil && p.Heard().After(since) }

// restLook is how often it is looked whether a call has been answered, where that is news.
const restLook = time.Second

// rest waits for so long, or until a call was answered, where that is news. It is false once ctx ends.
func (p *Prober) rest(ctx context.Context, wait time.Duration, since time.Time, isNews bool) bool {
	for end := time.Now().Add(wait); ; {
		left := time.Until(end)
		if isNews {
			left = min(left, restLook)
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return false
		}
		if !time.Now().Before(end) || isNews && p.heard(since) {
			return true
		}
	}
}

// once asks one question, and for the lists where that is due. The finding is what BackendAnswers is to say, zero where
// nobody was asked.
func (p *Prober) once(ctx context.Context, within time.Duration, lists bool) (facts backend.Facts) {
	whole, end := context.WithTimeout(ctx, askTime(p.Server))
	defer end()
	ctx, cancel := context.WithTimeout(whole, within)
	defer cancel()
	client, err := p.begin(ctx)
	defer client.end()
	r := client.last.Load()
	p.pause = r.retry
	if err != nil {
		if facts.Answers = p.alive(r); facts.Answers.Status == "" {
			facts.Answers = unanswered(p.Server, r, client.explain(errors.Join(err, ctx.Err())), within)
		}
		if facts.Answers.Status == metav1.ConditionUnknown {
			facts.Answers = conditions.Finding{}
		}
		return facts
	}
	p.letIn = true
	facts.Answers = answers(p.Server)
	if hello := client.session.InitializeResult(); lists {
		client.count(whole, hello.Capabilities, &facts)
		if p.Server.Remote != nil {
			facts.Server = serverOf(hello)
		}
	}
	return facts
}
