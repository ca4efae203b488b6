package probe

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"sync"
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

// waits is the same for one that wants to be left alone for a time.
func (w watching) waits(failed bool, retry time.Duration) time.Duration {
	return max(w.pause(failed), min(retry, rare*w.period))
}

// watch asks a backend that has answered for as long as it runs: pods that are ready may hang, or answer something else
// than MCP. It returns whether the backend answers again after something else was told, with what was told first being
// known and told; else it ends with ctx, or at once where nothing is to be asked.
//
// Each pod is asked. A call of a client that a pod answered since its last question is as good as one: none is sent
// then, but that for the lists. The question is server/discover, which costs a modern backend nothing. For a legacy one
// the proxy asks for a ping in the session that it holds for the runner at that pod, and begins another only where the
// pod does not know that one any more.
func (p *Prober) watch(
	ctx context.Context, logger *slog.Logger, seen pods, known backend.Facts, told verdict, tell func(backend.Facts),
) (again bool) {
	set := watchingOf(p.Server)
	if set.period == 0 {
		return false
	}
	began := time.Now()
	w := &watch{
		prober: p, set: set, log: logger, tell: tell, pods: seen, known: known, told: told,
		listed: began, first: began.Add(set.waits(false, p.pause)),
	}
	for w.rest(ctx) {
		if w.round(ctx, time.Now()) {
			return true
		}
	}
	return false
}

// watch is what is told of a backend that has answered.
type watch struct {
	prober *Prober
	set    watching
	log    *slog.Logger
	tell   func(backend.Facts)
	pods   pods
	// known is what was told of it first, and told the finding that was told last.
	known backend.Facts
	told  verdict
	// doubts says that it was told that no pod has answered the last question: what was told before counts no more then
	// against what another proxy tells.
	doubts bool
	// refused says that callers are told, and busy is until when they were not.
	refused bool
	busy    time.Time
	// listed is when the lists were asked for, and first when the first question of this watch is due.
	listed, first time.Time
}

// mostAsked is how many pods are asked in a period: of more, in turn.
const mostAsked = 16

// inTurn is how long a pod waits that would wait so long if it were among few.
func (w *watch) inTurn(wait time.Duration) time.Duration {
	return wait * time.Duration(1+(len(w.pods)-1)/mostAsked)
}

// round asks the pods of which a question is due. It reports whether the backend has to be asked what it is.
func (w *watch) round(ctx context.Context, now time.Time) (again bool) {
	p := w.prober
	asked, facts := w.due(now, p.places(ctx)), backend.Facts{}
	lister := w.lister(now, asked)
	var answered *pod
	found, asking := make([]question, len(asked)), sync.WaitGroup{}
	for i, pod := range asked {
		if pod != lister && p.heard(pod) {
			found[i].heard = true
			continue
		}
		asking.Go(func() { found[i] = p.once(ctx, pod.at, w.set.within, pod == lister) })
	}
	asking.Wait()
	if ctx.Err() != nil {
		return false
	}
	for i, pod := range asked {
		if pod.asked, pod.late = now, found[i].late; found[i].heard {
			pod.heard(p.Server)
		} else if pod.found(p.Server, found[i].facts.Answers, w.set.failures, w.log) {
			answered = pod
		}
		wait := w.set.waits(pod.failed > 0 || !pod.isUp(), found[i].retry)
		if pod.failed == 0 || !pod.isUp() { // else it is soon to be known whether it is out
			wait = w.inTurn(wait)
		}
		pod.next = now.Add(wait)
		if pod == lister {
			facts, w.listed = found[i].facts, now
		}
	}
	says, works := w.pods.verdict(p.Server, w.told), answers(p.Server)
	again = answered != nil && says.base == works && (w.told.base != works || len(w.known.ProtocolVersions) == 0)
	if w.refuses(now, says.finding, again); again {
		p.answered = answered.at
		return true
	}
	w.concludes(says, facts)
	return false
}

// mostBusy is for how long a backend may be taken for one that is busy with a call, and not for one that hangs with it.
const mostBusy = 5 * time.Minute

// refuses has what begins go past pods that are out, and callers be told where all are. Other reasons may be about the
// question: so a caller may have a key that the runner has not. One that answers late may be busy with a call.
func (w *watch) refuses(now time.Time, is conditions.Finding, again bool) {
	asked := w.prober.Asked
	if asked == nil {
		return
	}
	asked.LeaveOut(w.pods.down())
	isTold := is.Reason == v1alpha1.ReasonNotAnswering || is.Reason == v1alpha1.ReasonNotMCP
	switch {
	case again || is.Status == metav1.ConditionTrue || !isTold:
		w.refused, w.busy = false, now
		asked.Down("", "")
	case !w.refused && w.pods.someLate() && asked.IsBusy() && now.Sub(w.busy) < mostBusy:
	default:
		w.refused = true
		asked.Down(is.Reason, is.Message)
	}
}

// due are the pods that are to be asked now, of those that there are.
func (w *watch) due(now time.Time, there []netip.Addr) (due []*pod) {
	is := w.told.base
	w.pods.keep(there, func(at netip.Addr) *pod { return &pod{at: at, is: is, asked: w.listed, next: w.first} })
	for _, at := range there {
		if pod := w.pods[at]; !pod.next.After(now) || !pod.isUp() && w.prober.heard(pod) {
			due = append(due, pod)
		}
	}
	slices.SortStableFunc(due, func(a, b *pod) int { return a.asked.Compare(b.asked) })
	if len(due) > mostAsked {
		for _, pod := range due[mostAsked:] {
			pod.next = now.Add(w.set.pause(false))
		}
		due = due[:mostAsked]
	}
	return due
}

// lister is the pod that is asked for the lists, nil where they are not due: the same one as long as it answers.
func (w *watch) lister(now time.Time, asked []*pod) *pod {
	if now.Sub(w.listed) < rare*w.set.period*9/10 && !w.prober.had.asksSoon() {
		return nil
	}
	for _, pod := range asked {
		if pod.at == w.prober.answered {
			return pod
		}
	}
	for _, pod := range asked {
		if pod.isUp() {
			return pod
		}
	}
	return nil
}

// concludes tells what follows for the whole backend from what was found of pods, and of what one offers.
func (w *watch) concludes(now verdict, facts backend.Facts) {
	switch {
	case now != w.told:
		w.told, w.doubts = now, false
		w.tell(backend.Facts{Answers: now.finding})
	case !w.isDown() && w.pods.allFail():
		if !w.doubts {
			w.doubts = true
			w.tell(backend.Facts{})
		}
		return
	case w.doubts:
		w.doubts = false
		w.tell(backend.Facts{Answers: w.told.finding})
	}
	w.counts(facts)
}

func (w *watch) isDown() bool { return w.told.finding.Status != metav1.ConditionTrue }

// counts tells what the backend offers where that was asked for and is not what it was.
func (w *watch) counts(facts backend.Facts) {
	now := w.known
	now.Server = cmp.Or(facts.Server, now.Server)
	now.Tools = cmp.Or(facts.Tools, now.Tools)
	now.Prompts, now.Resources = cmp.Or(facts.Prompts, now.Prompts), cmp.Or(facts.Resources, now.Resources)
	now.Lost = cmp.Or(facts.Lost, now.Lost)
	if !reflect.DeepEqual(now, w.known) {
		w.known = now
		now.Answers = w.told.finding
		w.tell(now)
	}
}

// restLook is how often it is looked whether a call has been answered, where that is news.
const restLook = time.Second

// rest waits until a question is due, or until a pod that was out has answered a call. It is false once ctx ends.
func (w *watch) rest(ctx context.Context) bool {
	for {
		due, isOut := w.next()
		left := time.Until(due)
		if isOut {
			left = min(left, restLook)
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return false
		}
		if !time.Now().Before(due) || w.isNews() {
			return true
		}
	}
}

// next is when a question is due, and whether a pod is out.
func (w *watch) next() (due time.Time, isOut bool) {
	due = w.first
	for i, pod := range slices.Collect(maps.Values(w.pods)) {
		if isOut = isOut || !pod.isUp(); i == 0 || pod.next.Before(due) {
			due = pod.next
		}
	}
	return due, isOut
}

// isNews reports whether a pod that is out has answered a call.
func (w *watch) isNews() bool {
	for _, pod := range w.pods {
		if !pod.isUp() && w.prober.heard(pod) {
			return true
		}
	}
	return false
}

// question is what one has found.
type question struct {
	// heard says that none was sent, since a call was answered.
	heard bool
	facts backend.Facts
	late  bool // that no answer has come in time
	// retry is how long the pod wants to be left alone.
	retry time.Duration
}

// once asks a pod one question, and for the lists where that is due. The finding is what BackendAnswers would say of it
// alone, zero where nobody was asked.
func (p *Prober) once(ctx context.Context, at netip.Addr, within time.Duration, lists bool) (q question) {
	whole, end := context.WithTimeout(ctx, askTime(p.Server))
	defer end()
	ctx, cancel := context.WithTimeout(whole, within)
	defer cancel()
	client, err := p.begin(ctx, at)
	defer client.end()
	r := client.last.Load()
	if q.retry = r.retry; err != nil {
		q.late = ctx.Err() != nil
		if q.facts.Answers = p.alive(r); q.facts.Answers.Status == "" {
			q.facts.Answers = unanswered(p.Server, r, client.explain(errors.Join(err, ctx.Err())), within)
		}
		if q.facts.Answers.Status == metav1.ConditionUnknown {
			q.facts.Answers = conditions.Finding{}
		}
		return q
	}
	p.letIn.Store(true)
	q.facts.Answers = answers(p.Server)
	if lists {
		p.count(whole, client, &q.facts)
		if p.Server.Remote != nil {
			q.facts.Server = serverOf(client.session.InitializeResult())
		}
	}
	return q
}
