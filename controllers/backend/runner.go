// Package backend is the runner's half of a server: it applies the backend's StatefulSet and Services, and reports.
// Start with Runner.Pass.
//
// Several runners of one server work at the same time without an election: replicas of one workload generation, and
// during a rollout those of several. The gate on each object's revision keeps them apart, and for the report the
// rules on the root of the MCPServer's schema.
package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Runner applies one server's backend and reports on it; for a remote server it only reports. Its methods must not
// run concurrently.
type Runner struct {
	// Reader reads the MCPServer, and the StatefulSet and the two Services of each slot that its status names. It may be a
	// cache, which must keep managedFields.
	Reader client.Reader
	// Live reads from the API server, where a cache cannot know.
	Live    client.Reader
	Applier *apply.Applier
	Run     runconfig.RunConfig
	// Env is the revision that the pod was made for, EnvErr why there is none.
	Env    revision.Revision
	EnvErr error
	Now    func() time.Time
	// ProxySums are by what a bridge may know the server's proxies, the first one what new ones are told, or why they have
	// no key. Nil says nothing to bridges.
	ProxySums func() (sums []string, err error)

	// AskFirst is how long the first report of a new proxy may wait for the answer of a running backend; 0 for not at all.
	AskFirst time.Duration

	// waitsSince is when that wait began.
	waitsSince time.Time
	// slots are those that the status named last.
	slots []workload.Slot
	// stored are contents that history has, by hash, of those that are kept.
	stored map[string]runconfig.RunConfig
	// rendered are the StatefulSets, by what they were rendered from: the last one of each slot.
	rendered map[rendering]*appsv1ac.StatefulSetApplyConfiguration
	// stated is with which key the pods of a slot were made, where it is another one than the runner's.
	stated map[workload.Slot]stated
	// content is the hash of that of which this pass says whether it answers.
	content string
	// learned are the last facts; pendingReport means that they are not reported yet, and
	// pendingFacts that there is more than an answer among them. heard is the content that has
	// answered this runner.
	learned       Facts
	pendingReport bool
	pendingFacts  bool
	// pendingSinceWait says that they are of a time in which the runner did not report: once another one has, they count
	// no more than what it says.
	pendingSinceWait bool
	heard            string
	messageChanged   time.Time
	// candidateSeen is what was last seen of the content as a candidate, nil for nothing yet of pods that started;
	// pendingCandidate: it is not reported yet. rollout is the id of that to which it belongs.
	rollout          string
	candidateSeen    *v1alpha1.CandidateStatus
	pendingCandidate bool
	// compared is what the last comparison of that rollout's candidate found, and dropped is Start.Dropped.
	compared v1alpha1.CandidateStatus
	dropped  int
	// written are the notable writes of this pass; nextPass is the time until another pass is due without an event, 0 if
	// none is.
	written  []apply.Outcome
	nextPass time.Duration
	// standing is the Report.Standing of the last attempt.
	standing Standing
}

// Report is the result of a pass.
type Report struct {
	// Waiting says why nothing was applied, empty if something could be.
	Waiting string
	// Decision is the gate's on the StatefulSet, if it was asked.
	Decision revision.Decision
	// Finding is that of BackendApplied, zero if not stated.
	Finding conditions.Finding
	// Again is the time until another pass is due without an event, 0 if none is.
	Again time.Duration
	// Written are the writes that repaired a field conflict, took an object over, or were changed by admission.
	Written []apply.Outcome
	// Start is the start of the runner's own content that runs now, zero while none does, or it drains.
	Start Start
	// Serving is that of what gets the calls, where that is other content.
	Serving Serving
	// Looked says that nothing starts where there is no start, though the report waits.
	Looked bool
	// Standing is what proxies route by.
	Standing Standing
}

// maxAttempts is how often a pass reads anew after it met a changed object. Then the queue retries.
const maxAttempts = 4

// Disagreement is why this runner must never apply anything, or nil. The revision of the pod, that of the file, and
// the hash of the file's content must agree: with only one of them, two runners of different age could use one number
// for different content. There is no fallback.
func (r *Runner) Disagreement() error {
	file := r.mine()
	switch {
	case r.EnvErr != nil:
		return fmt.Errorf("the environment carries no workload generation: %w", r.EnvErr)
	case !r.Env.Valid():
		return errors.New("the environment carries no workload generation")
	case r.Env != file:
		return fmt.Errorf("the environment says workload generation %d with hash %s, the run config %d with hash %s",
			r.Env.Generation, r.Env.Hash, file.Generation, file.Hash)
	}
	return r.Run.Verify()
}

func (r *Runner) mine() revision.Revision {
	return revision.Revision{Generation: r.Run.Workload.Generation, Hash: r.Run.Workload.Hash}
}

// Learn takes facts from the backend. The next pass reports them. Facts without a finding say that a question had no
// answer: what was learned before counts no more against what another replica has reported.
func (r *Runner) Learn(facts Facts) {
	facts.Content = cmp.Or(facts.Content, r.Run.Rendering.Backend)
	same := r.learned.Content == facts.Content
	if facts.Answers.Status == "" && facts.empty() {
		if same {
			r.learned.Answers = conditions.Finding{}
		}
		return
	}
	if facts.Answers.Status == metav1.ConditionTrue {
		r.heard = facts.Content
	}
	r.pendingFacts = !facts.empty() || same && r.pendingReport && r.pendingFacts
	if facts.empty() && same { // what a server is stays known where it is asked whether it answers alone
		answers := facts.Answers
		facts = r.learned
		facts.Answers = answers
	}
	r.learned, r.pendingReport, r.pendingSinceWait = facts, true, false
}

// LearnCandidate takes what was seen of the runner's content while that is a candidate. The next pass reports it, and
// states the hash. Where nothing could be compared, the tools that the last comparison did not find are lost still.
func (r *Runner) LearnCandidate(seen v1alpha1.CandidateStatus) {
	switch {
	case seen.Answers && seen.Reason == v1alpha1.ReasonNotAsked:
		seen.Lost, seen.LostTools = r.compared.Lost, r.compared.LostTools
	case seen.Answers:
		r.compared = seen
	}
	r.candidateSeen, r.pendingCandidate = &seen, true
}

// Pass reads everything once and applies the run config. ctx must end at SIGTERM: nothing is written after that.
//
// The error is one that a retry may cure: the caller retries as apply.RetryOf says, after a refusal each minute. The
// report has what a retry cannot cure; the event of the cure wakes the next pass.
func (r *Runner) Pass(ctx context.Context) (Report, error) {
	if err := r.Disagreement(); err != nil {
		return Report{Waiting: err.Error()}, nil //nolint:nilerr // it is what the report says; another pass would say the same
	}
	r.written, r.nextPass, r.standing = nil, 0, Standing{}
	reader, live := r.Reader, false
	for look := 1; ; look++ {
		report, err := r.attempt(ctx, reader, live)
		if !isStale(err) || look == maxAttempts {
			report.Written, report.Again, report.Standing = r.written, apply.ShortestWait(r.nextPass, report.Again), r.standing
			return report, err
		}
		reader, live = r.Live, true
	}
}

// errLookLive ends an attempt whose decision needs a live read.
var errLookLive = errors.New("the cache is not enough to decide")

func isStale(err error) bool {
	return errors.Is(err, errLookLive) || apply.OnlyRetried(err, apply.OnEvent) != nil
}

func (r *Runner) attempt(ctx context.Context, reader client.Reader, live bool) (Report, error) {
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	w, err := r.observe(ctx, reader)
	if err != nil {
		return Report{}, err
	}
	r.standing, r.content = r.standingOf(w), r.Run.Rendering.Backend
	if why := r.skipReason(w); why != "" {
		return Report{Waiting: why}, nil
	}
	if ahead, err := r.ahead(ctx, w, live); ahead > 0 || err != nil {
		return Report{Waiting: "the cache does not show our last report yet", Again: ahead}, err
	}
	if r.Run.Remote != nil {
		return r.reportRemote(ctx, w)
	}
	return r.applyAndReport(ctx, w, placementOf(statusOf(w.owner), r.Run), live)
}

// reportRemote reports on a server that runs elsewhere.
func (r *Runner) reportRemote(ctx context.Context, w snapshot) (Report, error) {
	if err := r.announce(ctx, w); err != nil {
		return Report{Waiting: notReported}, unlessGone(err)
	}
	start := Start{UID: w.owner.GetUID(), Revision: r.mine().Hash}
	report := Report{Finding: r.says(w.owner).Answers, Start: start}
	return report, unlessGone(r.reportOutcome(ctx, w, conditions.Finding{}))
}

// notReported is why a runner writes nothing.
const notReported = "the report could not be made"

// applyAndReport writes the runner's own content to its slot, if it has one, keeps what is not its own, and reports.
func (r *Runner) applyAndReport(ctx context.Context, w snapshot, p placement, live bool) (Report, error) {
	if p.rollout != r.rollout {
		r.rollout, r.candidateSeen, r.pendingCandidate, r.compared = p.rollout, nil, false, v1alpha1.CandidateStatus{}
	}
	r.content = p.content(r.Run)
	r.noticeReport(w.owner)
	if p.own == 0 {
		return r.wait(ctx, w, p, live)
	}
	var start Start
	if p.serves == nil || p.rollout != "" {
		start = started(w.slots[p.own].statefulSet, r.Run.Rendering.Backend)
	}
	if start != (Start{}) {
		start.Rollout, start.Dropped = p.rollout, r.dropped
	} else if p.rollout != "" {
		// A switch is not to rest on what pods said before they started again: each start is asked anew.
		if r.candidateSeen != nil {
			r.dropped++
		}
		r.candidateSeen, r.pendingCandidate = nil, true
	}
	if wait := r.firstAnswerWait(w, start); wait > 0 {
		return Report{Waiting: "the backend is asked before the first report", Again: wait, Start: start}, nil
	}
	// The report comes before the write: once it stands, no runner of a lower generation creates its content again. What
	// it may restate of what gets the calls follows from how history has that.
	if p.serves != nil && !reported(w.owner, r) {
		_, _ = r.storedContent(ctx, *p.serves) //nolint:errcheck // who keeps it says why it cannot be read
	}
	if err := r.announce(ctx, w); err != nil {
		return Report{Waiting: notReported}, unlessGone(err)
	}
	decision, own := r.write(ctx, w, p.own, r.Run, live)
	keeps, kept := r.finding(w.owner, r.keepAll(ctx, w, p.kept, live))
	if isSettled(own) {
		return Report{Decision: decision, Waiting: own.Error()}, kept
	}
	finding, err := r.finding(w.owner, own)
	if finding.Reason == v1alpha1.ReasonApplied {
		if finding.Message += unkept(keeps); keeps.Reason == v1alpha1.ReasonFieldConflict || keeps.Reason == "" {
			finding = keeps
		}
	}
	report, err := Report{Decision: decision, Finding: finding, Start: start, Serving: r.serving(w, p)},
		errors.Join(err, kept)
	if finding.Reason == "" {
		return report, err
	}
	return report, errors.Join(err, unlessGone(r.reportOutcome(ctx, w, finding)))
}

// wait keeps what is not the runner's own while that has no slot. It reports if it cannot, has reported before, or
// knows more of what gets the calls than is reported: so a runner whose content gets the calls goes on to keep it until
// other content comes. Of a rollout that has not come to the backend it does not report first: then those would stand
// back whose content it is, which need no history.
func (r *Runner) wait(ctx context.Context, w snapshot, p placement, live bool) (Report, error) {
	keeps, err := r.finding(w.owner, errors.Join(r.keepAll(ctx, w, p.kept, live), r.keepBack(ctx, w, p.back, live)))
	report := Report{Serving: r.serving(w, p), Looked: true}
	if keeps.Reason == "" || (keeps.Reason == v1alpha1.ReasonApplied || p.rollout != "") &&
		!reported(w.owner, r) && !r.knowsMore(w.owner) {
		report.Waiting, r.pendingSinceWait = p.why, r.pendingReport
		return report, err
	}
	report.Finding = conditions.False(v1alpha1.ReasonStandingBack, p.why+unkept(keeps))
	return report, errors.Join(err, unlessGone(r.reportOutcome(ctx, w, report.Finding)))
}

// keepBack has the runner's content stand where it does already, though the rollout that goes back to it has not come
// to the backend yet: nobody else keeps it then.
func (r *Runner) keepBack(ctx context.Context, w snapshot, slot workload.Slot, live bool) error {
	if w.slots[slot].hash() != r.Run.Rendering.Backend {
		return nil
	}
	if _, err := r.write(ctx, w, slot, r.Run, live); !isSettled(err) {
		return err
	}
	return nil
}

// Serving is what gets the calls where that is not the runner's content.
type Serving struct {
	// Start is zero while nobody is to be asked.
	Start Start
	// Backend is how it is called.
	Backend runconfig.Backend
}

// serving is the start of what gets the calls beside the runner's content.
func (r *Runner) serving(w snapshot, p placement) Serving {
	if p.serves == nil {
		return Serving{}
	}
	of, asks := r.asks(*p.serves)
	if !asks {
		return Serving{}
	}
	start := started(w.slots[workload.Slot(p.serves.Slot)].statefulSet, p.serves.Hash)
	return Serving{Start: start, Backend: of}
}

// asks reports whether content beside the runner's own is asked, and how it is called: not where each question starts a
// process, which history says of a bridge.
func (r *Runner) asks(content v1alpha1.BackendContent) (of runconfig.Backend, asks bool) {
	if run, known := r.stored[content.Hash]; known {
		return run.Backend, run.Backend.Bridge == nil || run.Backend.Bridge.Sessions == 0
	}
	return runconfig.Backend{Port: content.Port, Path: content.Path, Transport: string(content.Transport)},
		content.Transport == v1alpha1.TransportStreamableHTTP
}

// unkept is what a report on a runner's own content says beside of what it keeps. It is no reason of its own, since
// trouble with what serves is no fault of what is to take over. Words of a refusal, which change, are in the log.
func unkept(keeps conditions.Finding) string {
	const not = "; content beside it cannot be kept as it was: "
	switch keeps.Reason {
	case v1alpha1.ReasonApplied, "":
		return ""
	case v1alpha1.ReasonApplyFailed, v1alpha1.ReasonNotAdoptable:
		return not + "the API server refuses that, in words that are in the log of the proxy"
	}
	return not + keeps.Message
}

// ahead returns how long to wait for a cache that lacks our own last report: we would repeat that report.
func (r *Runner) ahead(ctx context.Context, w snapshot, live bool) (time.Duration, error) {
	if live {
		return 0, nil
	}
	return r.Applier.Ahead(ctx, w.owner, kinds.Of(w.owner).ReportManager)
}

// applyAs writes as a manager, and keeps the notable outcomes for the report.
func (r *Runner) applyAs(
	ctx context.Context, manager ownership.Manager, live client.Object, ac runtime.ApplyConfiguration,
	opts ...apply.Option,
) error {
	outcome, err := r.Applier.As(manager).Apply(ctx, live, ac, opts...)
	for _, c := range apply.Conflicts(err) {
		r.nextPass = apply.ShortestWait(r.nextPass, c.RetryAfter())
	}
	if outcome.Repaired != nil || outcome.TakenOver != nil || outcome.Rewritten != nil {
		r.written = append(r.written, outcome)
	}
	r.nextPass = apply.ShortestWait(r.nextPass, outcome.RequeueAfter)
	return err
}

// unlessGone returns what a retry of a report may cure: also a refusal, since the end of a policy or of an older
// schema is no event here. If the rules on the MCPServer's root refuse, because a newer runner has reported, the next
// pass finds nothing to do. If the server is gone, that event is on its way.
func unlessGone(err error) error {
	if errors.Is(err, apply.ErrGone) {
		return nil
	}
	return apply.WithoutConflicts(err) // they are due by themselves
}

func (r *Runner) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}
