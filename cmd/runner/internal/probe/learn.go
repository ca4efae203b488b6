// Package probe asks a server what it is and offers, as a client of MCP does and on a client's way but for login and
// policies: whether the proxy is ready, and what the status says of the backend.
//
// Read Prober.Ask first.
package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/apis/printable"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/cmd/runner/internal/era"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// A backend is asked again, because a pod that is ready need not be reachable
// through its Service on this node yet, and one that is mended sends no event.
const (
	askTimeout = 15 * time.Second
	firstPause = 250 * time.Millisecond
	lastPause  = 30 * time.Second
	// patience is how many askings fail before it is told, and dnsDenial for how
	// long nothing may answer first: cluster DNS remembers for five seconds that it
	// did not know a Service, https://coredns.io/plugins/kubernetes/.
	patience  = 4
	dnsDenial = 5 * time.Second
	// maxItems is how many tools, prompts or resources are counted.
	maxItems = 10000
	// maxName is the longest name or version that the status takes, in bytes:
	// never more than its schema's limit in characters.
	maxName = 1024
)

// Prober asks one server.
type Prober struct {
	// Server is what is asked, as the run config has it.
	Server runconfig.Target
	// Endpoint is the URL at which clients in the cluster call it.
	Endpoint string
	// Dial connects to its proxy, whatever is asked for.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Version is the program's, which servers are told.
	Version string
	// Asked is the backend, nil where no more is known of it.
	Asked Asked

	// letIn says that the server has answered a question since it is asked, and pause is how long it wanted to be left
	// alone when it answered last.
	letIn atomic.Bool
	pause time.Duration
	// answered is the pod that answered what the backend is, and failed how many were asked in vain.
	answered netip.Addr
	failed   int
	// had are the tools that it has listed.
	had toolset
	// oneEraSince is when clients of one era alone were served first, in nanoseconds since 1970: 0 where they were not
	// since the backend is asked.
	oneEraSince atomic.Int64
}

// Ask asks the server until ctx ends: what it is until it has answered, and then whether it answers still. It tells
// what it learned, and why nothing could be, each time that it is another reason.
func (p *Prober) Ask(ctx context.Context, logger *slog.Logger, tell func(backend.Facts)) {
	if len(p.Server.NotEnforced) > 0 {
		return // nothing reaches the backend
	}
	p.oneEraSince.Store(0)
	p.pause = 0
	p.letIn.Store(false)
	if p.Asked != nil {
		p.Asked.Down("", "") // of what was there before
		defer p.Asked.Down("", "")
		defer p.Asked.LeaveOut(nil)
	}
	told, seen := backend.Facts{}, pods{}
	pause, began := firstPause, time.Now()
	for attempt := 1; ; attempt++ {
		facts, err := p.learn(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := pause
		pause = min(2*pause, lastPause)
		switch {
		case errors.Is(err, errOneEra):
			attempt, pause, wait = 0, firstPause, time.Second
		case err == nil && partial(facts) && attempt < patience:
			// Asked for while a pod ended, for example. The lists are not asked for again soon once this has been told.
		case err == nil:
			says := p.learned(seen, facts.Answers)
			facts.Answers = says.finding
			tell(facts)
			if !p.watch(ctx, logger, seen, facts, says, tell) {
				return
			}
			told, attempt, began, pause, wait = backend.Facts{}, 0, time.Now(), firstPause, 0
		case facts.Answers != told.Answers && lasts(facts.Answers.Reason, attempt, time.Since(began)):
			logger.Info("the backend does not answer MCP", "detail", facts.Answers.Message, "error",
				printable.Line(err.Error(), maxName))
			told = facts
			tell(facts)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// partial reports whether MCP answers and a list that is offered could not be read.
func partial(f backend.Facts) bool {
	return len(f.ProtocolVersions) > 0 && (f.Tools == nil || f.Prompts == nil || f.Resources == nil)
}

// lasts reports whether a failure is more than a backend that has just become
// ready, and whose Service is not known or led to everywhere yet.
func lasts(reason string, attempts int, since time.Duration) bool {
	return (attempts >= patience || since >= patience*askTimeout) &&
		(reason != v1alpha1.ReasonNotAnswering && reason != v1alpha1.ReasonNotAsked || since > dnsDenial)
}

// askTime is how long one asking may take: a bridge starts its server for the question of its era, and for a session.
func askTime(run runconfig.Target) time.Duration {
	if run.Bridged() {
		return 2 * era.BridgePatience
	}
	return askTimeout
}

var errUnreached = errors.New("there is no endpoint")

// reached returns errUnreached where there is no endpoint, and errOneEra.
func (p *Prober) reached(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime(p.Server))
	defer cancel()
	at := p.place(ctx)
	client, err := p.begin(ctx, at)
	defer client.end()
	p.tried(at, err == nil)
	if err != nil {
		r := client.last.Load()
		if r.refused() && (p.Server.Remote == nil || !r.barred()) || p.lacksKey(r) { // callers may bring a key
			return nil
		}
		return errUnreached
	}
	_, _, err = p.agreed(ctx, client)
	return err
}

// learn makes one attempt. The error is errOneEra, or says that MCP did not answer, and the facts
// why; a list that cannot be counted is only left out.
func (p *Prober) learn(ctx context.Context) (backend.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime(p.Server))
	defer cancel()
	at := p.place(ctx)
	client, err := p.begin(ctx, at)
	defer client.end()
	p.pause = client.last.Load().retry
	p.tried(at, err == nil)
	if err != nil {
		if alive := p.alive(client.last.Load()); alive.Status != "" {
			p.tried(at, true)
			return backend.Facts{Answers: alive}, nil
		}
		err = fmt.Errorf("asking the backend: %w", client.explain(errors.Join(err, ctx.Err())))
		return backend.Facts{Answers: unanswered(p.Server, client.last.Load(), err, askTime(p.Server))}, err
	}
	p.letIn.Store(true)
	hello := client.session.InitializeResult()
	seen, begun, oneEra := p.agreed(ctx, client)
	if begun != nil && hello.ServerInfo != nil {
		// The translator tells what it was told when it began the session that it holds, which
		// may be with a pod of before.
		hello = begun
	}
	facts := backend.Facts{
		Answers:          answers(p.Server),
		ProtocolVersions: seen,
	}
	facts.Server = serverOf(hello)
	p.count(ctx, client, &facts)
	if p.Server.Remote != nil && (facts.Tools == nil || facts.Prompts == nil || facts.Resources == nil) {
		// The proxy may have answered the beginning itself, from what it knew.
		r := client.last.Load()
		if p.pause = r.retry; r.busy() {
			return backend.Facts{Answers: p.alive(r)}, nil
		}
		if r.from == nobody || r.status >= http.StatusBadRequest {
			err := fmt.Errorf("asking the server: %w", cmp.Or(client.explain(ctx.Err()), errNoList))
			return backend.Facts{Answers: unanswered(p.Server, r, err, askTime(p.Server))}, err
		}
	}
	return facts, oneEra
}

// serverOf is who a server says it is, nil where it does not say it.
func serverOf(hello *mcp.InitializeResult) *v1alpha1.ServerInfo {
	if hello.ServerInfo == nil {
		return nil
	}
	name := printable.Line(hello.ServerInfo.Name, maxName)
	if name == "" {
		return nil
	}
	return &v1alpha1.ServerInfo{Name: name, Version: printable.Line(hello.ServerInfo.Version, maxName)}
}

// count counts what a server offers, and compares the tools with those that it had.
func (p *Prober) count(ctx context.Context, a *asking, facts *backend.Facts) {
	offers := cmp.Or(a.session.InitializeResult().Capabilities, &mcp.ServerCapabilities{})
	if has, err := a.tools(ctx, offers); err == nil {
		facts.Tools = new(int32(len(has))) //nolint:gosec // at most maxItems
		facts.Lost = p.had.compare(has)
	}
	facts.Prompts = count(offers.Prompts != nil, a.session.Prompts(ctx, nil))
	facts.Resources = count(offers.Resources != nil, a.session.Resources(ctx, nil))
}

var errNoList = errors.New("a list that it offers is not answered")

// answers is what is said of a server that answers MCP, and keptOut of one that does not let the runner in.
func answers(run runconfig.Target) conditions.Finding {
	if run.Remote != nil {
		return conditions.True(v1alpha1.ReasonAnswers, "the server at spec.url answers MCP")
	}
	return conditions.True(v1alpha1.ReasonAnswers, "the backend answers MCP")
}

func keptOut(r *reply) conditions.Finding { return conditions.True(v1alpha1.ReasonAnswers, r.bar()) }

// asksNothing has a server know that its client answers nothing, so that no stream is held open for its questions.
var asksNothing = &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}

func (p *Prober) connect(ctx context.Context, client *asking, revision string) (*mcp.ClientSession, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: protocol.OwnClient, Version: p.Version}, asksNothing)
	transport := &mcp.StreamableClientTransport{
		Endpoint: p.Endpoint, HTTPClient: &client.Client, DisableStandaloneSSE: true,
		MaxRetries: -1,
	}
	return c.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
}

// count counts a list: 0 if it is not offered, nil if it cannot be read.
func count[T any](offered bool, items iter.Seq2[T, error]) *int32 {
	n := int32(0)
	if !offered {
		return &n
	}
	for _, err := range items {
		if err != nil {
			return nil
		}
		if n++; n == maxItems {
			break
		}
	}
	return &n
}
