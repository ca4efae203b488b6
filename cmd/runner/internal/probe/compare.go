package probe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/apis/printable"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

const (
	// settling is for how long tools that are missing may still come: servers list those of their own before those of
	// others that they ask, or none before they have read what they serve.
	settling = 10 * time.Second
	// settlePause is how often they are listed meanwhile.
	settlePause = time.Second
	// mostPause is how long nothing is asked while what was told stays as it is: a rollout may be held for days.
	mostPause = 5 * time.Minute
	// incumbentPatience is for how long the content that gets the calls may not answer, before the candidate is judged
	// without it: its pod may have moved to another node.
	incumbentPatience = time.Minute
)

// notCompared is what is said where the tools of the content that gets the calls cannot be had.
const notCompared = "the tools of the content that gets the calls could not be read, so that none were compared"

// Compare asks a candidate for what it is and which tools it has, and compares them with those of the content that gets
// the calls, which incumbent asks. There reports whether the proxy can ask the candidate: until the status names it the
// same question goes elsewhere. What is lost is told once it has settled, and again when it has changed; the end of
// Compare is that nothing is lost, or that of ctx.
func (p *Prober) Compare(
	ctx context.Context, log *slog.Logger, incumbent *Prober, there func() bool, tell func(v1alpha1.CandidateStatus),
) {
	if len(p.Server.NotEnforced) > 0 {
		return // nothing reaches the backend
	}
	told, began := v1alpha1.CandidateStatus{}, time.Now()
	var answered, silent time.Time // since when the candidate answers, and the content that gets the calls does not
	pause, rest := firstPause, lastPause
	for attempt := 1; ; attempt++ {
		var found v1alpha1.CandidateStatus
		var err error
		asked := there()
		if asked {
			found, err = p.compared(ctx, incumbent)
			asked = there()
		}
		silent = lasting(asked && err != nil && found.Answers, silent)
		wait := pause
		pause = min(2*pause, lastPause)
		switch {
		case ctx.Err() != nil:
			return
		case !asked:
			attempt, began, pause, wait = 0, time.Now(), firstPause, firstPause
		case err != nil && found.Answers && (told.Lost > 0 || reflect.DeepEqual(found, told)): // what was lost is lost
			rest, wait = min(2*rest, mostPause), min(2*rest, mostPause)
		case err != nil && found.Answers && time.Since(silent) < incumbentPatience:
		case err != nil && (!lasts(found.Reason, attempt, time.Since(began)) || reflect.DeepEqual(found, told)):
		case err != nil:
			log.Info("the candidate cannot be compared", "detail", found.Message, "error",
				printable.Line(err.Error(), maxName))
			told = found
			tell(found)
		case found.Lost == 0:
			tell(found)
			return
		default:
			attempt, began, pause = 0, time.Now(), firstPause
			answered = lasting(true, answered)
			if wait = lastPause; time.Since(answered) < settling {
				wait = settlePause
				break
			}
			if rest = min(2*rest, mostPause); reflect.DeepEqual(found, told) {
				wait = rest
			} else {
				rest = lastPause
				log.Info("the candidate lacks tools", "tools", found.LostTools, "lost", found.Lost)
				told = found
				tell(found)
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// lasting is since when something is so that was found just now, and was so since then; zero where it is not.
func lasting(is bool, since time.Time) time.Time {
	switch {
	case !is:
		return time.Time{}
	case since.IsZero():
		return time.Now()
	}
	return since
}

// compared is what one look shows. The error says that there is more to be seen: why the candidate, or the content that
// gets the calls, does not answer, or that tools cannot be had.
func (p *Prober) compared(ctx context.Context, incumbent *Prober) (found v1alpha1.CandidateStatus, err error) {
	has, said, err := p.tools(ctx)
	before, _, unread := incumbent.tools(ctx)
	switch {
	case err != nil && (!errors.Is(err, errNoList) || !errors.Is(unread, errNoList)):
		return v1alpha1.CandidateStatus{Reason: said.Reason, Message: said.Message}, err
	case unread != nil: // what gets the calls may answer soon; that it does not is no fault of the candidate
		found.Answers, found.Reason, found.Message = true, v1alpha1.ReasonNotAsked, notCompared
		return found, fmt.Errorf("asking the content that gets the calls: %w", unread)
	case before == nil:
		found.Answers, found.Message = true, cmp.Or(said.Message, notCompared)
		return found, nil
	}
	found.Answers, found.Message = true, said.Message // one that does not let the runner in has lost what was listed
	for _, name := range lost(before, has) {
		found.Lost++
		found.LostTools = append(found.LostTools, printable.Line(name, maxName))
	}
	for name := range has {
		if _, already := before[name]; !already {
			found.Added++
		}
	}
	return found, nil
}

// lost are the tools of before, in order, that are missing, or ask for more than they did.
func lost(before, has map[string]arguments) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if now, still := has[name]; !still || !now.takes(before[name]) {
			names = append(names, name)
		}
	}
	return names
}

// arguments are those of a tool, as its schema has them.
type arguments struct {
	Required   []string                   `json:"required"`
	Properties map[string]json.RawMessage `json:"properties"`
}

// takes reports whether a call with what a tool required before is one with all that it requires now, and whether it
// still knows those arguments.
func (a arguments) takes(before arguments) bool {
	more := func(name string) bool { return !slices.Contains(before.Required, name) }
	unknown := func(name string) bool {
		_, known := a.Properties[name]
		return !known && !slices.Contains(a.Required, name)
	}
	return !slices.ContainsFunc(a.Required, more) && !slices.ContainsFunc(before.Required, unknown)
}

// tools are those that a server lists, by name; nil for one that does not let the runner in, of which the finding
// tells. Where it does not answer that says why, and the error is errNoList where only the list cannot be had.
func (p *Prober) tools(ctx context.Context) (tools map[string]arguments, said conditions.Finding, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime(p.Server))
	defer cancel()
	at := p.place(ctx)
	client, err := p.begin(ctx, at)
	defer client.end()
	p.tried(at, err == nil)
	if r := client.last.Load(); err != nil && r.barred() {
		return nil, keptOut(r), nil
	}
	if err != nil {
		err = fmt.Errorf("asking the backend: %w", client.explain(errors.Join(err, ctx.Err())))
		return nil, unanswered(p.Server, client.last.Load(), err, askTime(p.Server)), err
	}
	if tools, err = client.tools(ctx, client.session.InitializeResult().Capabilities); err != nil {
		said := conditions.False(v1alpha1.ReasonNotAnswering, "the backend answers MCP, and does not list its tools")
		return nil, said, fmt.Errorf("%w: %w", errNoList, client.explain(err))
	}
	return tools, conditions.Finding{}, nil
}

// tools are those that a server lists, by name.
func (a *asking) tools(ctx context.Context, offers *mcp.ServerCapabilities) (map[string]arguments, error) {
	tools := map[string]arguments{}
	if offers == nil || offers.Tools == nil {
		return tools, nil
	}
	for tool, err := range a.session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		var of arguments
		if schema, err := json.Marshal(tool.InputSchema); err == nil {
			_ = json.Unmarshal(schema, &of) //nolint:errcheck // of a schema that is none nothing is required
		}
		if tools[tool.Name] = of; len(tools) == maxItems {
			break
		}
	}
	return tools, nil
}
