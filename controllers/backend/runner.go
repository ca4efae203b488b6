// Package backend is the runner's half of a server: it applies the backend's
// StatefulSet and Services, and reports.
//
// runner.go is the pass, observe.go all its reads and when there is nothing to
// do, gate.go who may write, objects.go what is written, and
// report.go what is said about it.
//
// Several runners of one server work at the same time without electing one:
// replicas of one workload generation, and during a rollout those of several.
// What keeps them apart is the gate on each object's revision, and for the report
// the rules on the root of the MCPServer's schema.
package backend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// Runner applies one server's backend and reports on it; for a server that runs
// elsewhere it only reports. Its methods must not
// be called at the same time.
type Runner struct {
	// Reader reads the MCPServer, the StatefulSet and the two Services. It may
	// be a cache, which must keep managedFields.
	Reader client.Reader
	// Live reads from the API server, where a cache cannot know.
	Live client.Reader
	// Applier writes.
	Applier *apply.Applier
	// Run is the run config, as it was read from the file.
	Run runconfig.RunConfig
	// Env is the revision that the pod was made for, and EnvErr why there is none.
	Env    revision.Revision
	EnvErr error
	// Now is the clock; time.Now if nil.
	Now func() time.Time

	// AskFirst is how long the first report of a new proxy may wait for what a backend
	// says that runs; 0 for not at all.
	AskFirst time.Duration

	// waits is since when it does.
	waitsSince time.Time
	// rendered is the backend's StatefulSet, nil until it is asked for.
	rendered *appsv1ac.StatefulSetApplyConfiguration
	// known is what was learned last; fresh says that it waits to be reported.
	learned Facts
	pendingReport bool
	// reworded is when the words of a refusal that stands last changed.
	messageChanged time.Time
	// written are the writes of this pass that are worth telling, and again is when
	// another pass is due though nothing happens, 0 if none is.
	written []apply.Outcome
	nextPass   time.Duration
	// standing is what the pass has last seen of Report.Standing.
	standing Standing
}

// Report is what a pass found.
type Report struct {
	// Waiting says why nothing was applied, empty if something could be.
	Waiting string
	// Decision is the gate's on the StatefulSet, where it was asked.
	Decision revision.Decision
	// Finding is what BackendApplied says, zero where it was not stated.
	Finding conditions.Finding
	// Again is when another pass is due though nothing happens, 0 if none is.
	Again time.Duration
	// Written are the writes that repaired a field conflict, took an object over, or
	// were changed by admission.
	Written []apply.Outcome
	// Start is the start of the backend that now runs, zero while none does.
	Start Start
	// Standing is what older and newer proxies meet.
	Standing Standing
}

// Standing is what there is of the backend, whose content ever that is.
type Standing struct {
	// PodPort is where pods of the content listen that the headless Service was written for, 0
	// while there is none.
	PodPort int32
	// Content names what all pods run, empty while there may be pods of two contents.
	Content string
}

// looks is how often a pass reads anew after it met an object that had moved.
// What moves more often than that is left to the queue.
const maxAttempts = 4

// Disagreement is why this runner may never apply anything, nil if it may. The
// number and hash that the pod was made with, the file's, and the hash of the
// file's content must be the same: with either one alone, two runners of
// different age could carry one number and write different content. There is no
// fallback from one to the other.
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

// mine is the revision that this runner writes.
func (r *Runner) mine() revision.Revision {
	return revision.Revision{Generation: r.Run.Workload.Generation, Hash: r.Run.Workload.Hash}
}

// Learn takes what was learned from the backend. The next pass reports it.
func (r *Runner) Learn(facts Facts) { r.learned, r.pendingReport = facts, true }

// Pass looks once at everything and brings the backend closer to the run
// config. ctx must end when SIGTERM comes: nothing is written after that.
//
// The error is one that another pass may not meet: the caller tries again when
// apply.When says, after a refusal each minute. What a retry cannot cure is in the
// report, and the event of whatever cures it wakes the next pass.
func (r *Runner) Pass(ctx context.Context) (Report, error) {
	if err := r.Disagreement(); err != nil {
		return Report{Waiting: err.Error()}, nil //nolint:nilerr // it is what the report says; another pass would say the same
	}
	r.written, r.nextPass = nil, 0
	reader, live := r.Reader, false
	for look := 1; ; look++ {
		report, err := r.attempt(ctx, reader, live)
		if !isStale(err) || look == maxAttempts {
			report.Written, report.Again, report.Standing = r.written, apply.Soonest(r.nextPass, report.Again), r.standing
			return report, err
		}
		reader, live = r.Live, true
	}
}

// errLookLive ends a look that rests on a cache and must not.
var errLookLive = errors.New("the cache is not enough to decide")

// moved reports whether a look met something that it had read otherwise.
func isStale(err error) bool {
	return errors.Is(err, errLookLive) || apply.Only(err, apply.WithWatch) != nil
}

func (r *Runner) attempt(ctx context.Context, reader client.Reader, live bool) (Report, error) {
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	w, err := r.observe(ctx, reader)
	if err != nil {
		return Report{}, err
	}
	r.standing = Standing{PodPort: w.podPort(), Content: r.content(w)}
	if why := r.skipReason(w); why != "" {
		return Report{Waiting: why}, nil
	}
	if ahead, err := r.ahead(ctx, w, live); ahead > 0 || err != nil {
		return Report{Waiting: "the cache does not show our last report yet", Again: ahead}, err
	}
	if wait := r.firstAnswerWait(w); wait > 0 {
		return Report{Waiting: "the backend is asked before the first report", Again: wait, Start: r.started(w.statefulSet)},
			nil
	}
	// The report comes before the write: once it stands, no runner of a lower
	// generation gives birth to its content again.
	if err := r.announce(ctx, w); err != nil {
		return Report{Waiting: "the report could not be made"}, unlessGone(err)
	}
	if r.Run.Remote != nil {
		report := Report{Finding: r.answers(w.owner), Start: Start{UID: w.owner.GetUID(), Revision: r.mine().Hash}}
		return report, unlessGone(r.reportOutcome(ctx, w, conditions.Finding{}))
	}
	decision, err := r.write(ctx, w, live)
	if isSettled(err) {
		return Report{Decision: decision, Waiting: err.Error()}, nil
	}
	finding, err := r.finding(w.owner, err)
	report := Report{Decision: decision, Finding: finding, Start: r.started(w.statefulSet)}
	if finding.Reason == "" {
		return report, err
	}
	return report, errors.Join(err, unlessGone(r.reportOutcome(ctx, w, finding)))
}

// ahead returns how long to wait for the cache if our own last report is newer
// than the owner: judged by it, we would report what we reported before once more.
func (r *Runner) ahead(ctx context.Context, w snapshot, live bool) (time.Duration, error) {
	if live {
		return 0, nil
	}
	return r.Applier.Ahead(ctx, w.owner, kinds.Of(w.owner).ReportManager)
}

// put writes as a manager, and keeps for the report of this pass what came of it.
func (r *Runner) applyAs(
	ctx context.Context, manager ownership.Manager, live client.Object, ac runtime.ApplyConfiguration,
	opts ...apply.Option,
) error {
	outcome, err := r.Applier.As(manager).Apply(ctx, live, ac, opts...)
	for _, c := range apply.Conflicts(err) {
		r.nextPass = apply.Soonest(r.nextPass, c.RetryAfter())
	}
	if outcome.Repaired != nil || outcome.TakenOver != nil || outcome.Rewritten != nil {
		r.written = append(r.written, outcome)
	}
	r.nextPass = apply.Soonest(r.nextPass, outcome.Again)
	return err
}

// unlessGone passes on what a retry of a report may cure: also a refusal, for
// the end of a policy or of an older schema is no event here. Where the rules on
// the MCPServer's root refuse, because a newer runner has reported, the next pass
// finds nothing to do. Where the server is gone, that event is on its way.
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
