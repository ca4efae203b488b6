package backendloop

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/revision"
)

func TestWhatIsSaidOfAPass(t *testing.T) {
	var log bytes.Buffer
	l := Loop{Log: slog.New(slog.NewTextHandler(&log,
		&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))}
	applied := backend.Report{Decision: revision.StandBack, Finding: conditions.True("Applied", "m")}
	back, over := applied, applied
	key := types.NamespacedName{Name: "echo-backend"}
	back.Written = []apply.Outcome{
		{Repaired: &apply.Conflict{
			Object: contract.Service, Key: key, Fields: []string{".spec.type"},
			Others: []string{"kubectl"},
		}},
	}
	over.Written = []apply.Outcome{
		{TakenOver: &apply.Takeover{Object: contract.StatefulSet, Key: key, From: []string{"helm"}}},
	}
	refused := backend.Report{Waiting: "the report could not be made"}
	const took = `level=INFO msg=repaired object=Service objectName=echo-backend fields=[.spec.type] from=[kubectl]` + "\n"
	for i, step := range []struct {
		report backend.Report
		err    error
		want   []string
	}{
		{applied, nil, []string{"level=INFO msg=pass gate=StandBack reason=Applied detail=m\n"}},
		{applied, nil, nil},
		{back, nil, []string{took}},
		{back, nil, []string{took}},
		{over, nil, []string{`level=INFO msg="taken over" object=StatefulSet objectName=echo-backend from=[helm]` + "\n"}},
		{refused, errors.New("no"), []string{
			"level=ERROR msg=\"pass failed\" error=no\n",
			`level=INFO msg=waiting detail="the report could not be made"` + "\n",
		}},
		{refused, errors.New("no"), nil},
		{refused, errors.New("never"), []string{"level=ERROR msg=\"pass failed\" error=never\n"}},
		{applied, nil, []string{"level=INFO msg=pass gate=StandBack reason=Applied detail=m\n"}},
		{applied, errors.New("never"), []string{"level=ERROR msg=\"pass failed\" error=never\n"}},
	} {
		log.Reset()
		l.say(step.report, step.err)
		if diff := cmp.Diff(step.want, slices.Collect(strings.Lines(log.String()))); diff != "" {
			t.Errorf("%d (-want +got):\n%s", i, diff)
		}
	}
}

// A pass is made again when the errors of the last say so: at once, and more and
// more slowly, only for what may pass by itself or be taken soon.
func TestWhenAPassIsMadeAgain(t *testing.T) {
	const minute, first, most = time.Minute, 200 * time.Millisecond, 250 * time.Millisecond
	refused := &apply.BadIntent{Err: errors.New("422")}
	pause := retries()
	for i, step := range []struct {
		again    time.Duration
		err      error
		from, to time.Duration
	}{
		{0, nil, 0, 0},
		{minute, nil, minute, minute},
		{0, apply.ErrStale, 0, 0},
		{0, &apply.NotGranted{}, 0, 0},
		{0, refused, first, most},
		{5 * time.Millisecond, refused, 5 * time.Millisecond, 5 * time.Millisecond},
		{0, errors.New("timeout"), 4 * first, 4 * most},
		{0, errors.Join(refused, errors.New("timeout")), 8 * first, 8 * most},
		{0, nil, 0, 0},
		{0, errors.New("timeout"), first, most},
	} {
		if got := next(backend.Report{Again: step.again}, step.err, &pause); got < step.from || got > step.to {
			t.Errorf("%d: again in %s, want %s to %s", i, got, step.from, step.to)
		}
	}
}

// A start is asked about once, as what it is: a candidate is compared until it gets the calls, or is given up.
func TestWhatStartsIsAskedOnceAsWhatItIs(t *testing.T) {
	var asked []string
	var last, beside context.Context
	begun := make(chan struct{})
	ask := func(ctx context.Context, what string) {
		asked, last = append(asked, what), ctx
		begun <- struct{}{}
	}
	l := Loop{
		AskServing: func(ctx context.Context, _ *slog.Logger, of runconfig.Backend, _ func(backend.Facts)) {
			asked, beside = append(asked, "whether "+of.Path+" answers"), ctx
			begun <- struct{}{}
		},
		Ask: func(ctx context.Context, _ *slog.Logger, _ func(backend.Facts)) { ask(ctx, "what it is") },
		Compare: func(ctx context.Context, _ *slog.Logger, _ func(v1alpha1.CandidateStatus)) {
			ask(ctx, "how it compares")
		},
	}
	candidate, none := backend.Start{UID: "1", Revision: "a", Rollout: "1"}, backend.Start{}
	serving, other, again := candidate, candidate, candidate
	serving.Rollout, other.Revision, again.Rollout = "", "b", "2"
	for _, step := range []struct {
		name   string
		report backend.Report
		asks   string
		ends   bool
	}{
		{"nothing runs", backend.Report{}, "", false},
		{"a candidate", backend.Report{Start: candidate}, "how it compares", false},
		{"again", backend.Report{Start: candidate}, "", false},
		{"a pass that could not look", backend.Report{Waiting: "x"}, "", false},
		{"other pods of it", backend.Report{Start: other}, "how it compares", true},
		{"it is given up", backend.Report{Start: none}, "", true},
		{"another one", backend.Report{Start: candidate}, "how it compares", true},
		{"of another rollout", backend.Report{Start: again}, "how it compares", true},
		{"which gets the calls", backend.Report{Start: serving}, "what it is", true},
	} {
		before := last
		asked = nil
		l.learn(t.Context(), step.report, nil)
		if step.asks != "" {
			<-begun
		}
		if ends := before != nil && before.Err() != nil; strings.Join(asked, ", ") != step.asks || ends != step.ends {
			t.Errorf("%s: asked %q, and ended %t what was asked before", step.name, asked, ends)
		}
	}
	l.own.end()
	old := backend.Serving{Start: backend.Start{UID: "2", Revision: "a"}, Backend: runconfig.Backend{Path: "/old"}}
	for _, step := range []struct {
		name   string
		report backend.Report
		asks   string
		ends   bool
	}{
		{"other content gets the calls", backend.Report{Waiting: "x", Serving: old}, "whether /old answers", false},
		{"again, beside a candidate", backend.Report{Start: candidate, Serving: old}, "how it compares", false},
		{"a pass that could not look", backend.Report{Waiting: "x"}, "", false},
		{"the candidate gets the calls", backend.Report{Start: candidate}, "", true},
	} {
		asked = nil
		l.learn(t.Context(), step.report, nil)
		if step.asks != "" {
			<-begun
		}
		if strings.Join(asked, ", ") != step.asks || (beside.Err() != nil) != step.ends {
			t.Errorf("%s: asked %q, and ended %t what was asked of what serves", step.name, asked, beside.Err() != nil)
		}
	}
	l.own.end()
}
