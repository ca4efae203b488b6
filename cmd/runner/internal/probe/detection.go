package probe

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// detectionTime is how long the runner waits for its proxy to serve clients of both eras of MCP once the backend has
// answered. Some backends never tell which they speak: clients of the other era are not served then.
const detectionTime = 15 * time.Second

// errOneEra says that MCP answers clients of one era alone. The proxy does not serve both while it does not know which
// of them the backend speaks: it passes on what it gets, and a client of the other era is refused (MCP specification
// 2026-07-28, basic/versioning). Nor does it begin sessions while cluster DNS does not know the backend's pods yet,
// which a call without a session does not need.
var errOneEra = errors.New("clients of one era alone are served")

// Ready reports whether calls find an endpoint, of clients of either era: MCP answers, or something that may take
// another message than the runner's. What is refused whatever is called is served: the refusal is the answer.
func (p *Prober) Ready(ctx context.Context) bool {
	return len(p.Server.NotEnforced) > 0 || p.reached(ctx) == nil
}

// agreed are the revisions that the backend was seen to speak, with what was said at the begin of its session: the one
// of session, and the legacy one if that is offered as well. The error is errOneEra, where that may change and is still
// waited for: the proxy translates, and agrees to revisions of both eras with any backend that it knows and that begins
// sessions.
func (p *Prober) agreed(
	ctx context.Context, client *asking,
) (seen []string, begun *mcp.InitializeResult, err error) {
	first := client.session.InitializeResult().ProtocolVersion
	seen = []string{first}
	if first > protocol.Legacy {
		if legacy, err := p.connect(ctx, client, protocol.Legacy); err == nil {
			begun = legacy.InitializeResult()
			seen = append(seen, begun.ProtocolVersion)
			_ = legacy.Close() //nolint:errcheck // it was asked all there is
		}
	}
	if first < protocol.Modern || begun == nil && !client.last.Load().stays() {
		p.oneEraSince.CompareAndSwap(0, time.Now().UnixNano())
		if time.Since(time.Unix(0, p.oneEraSince.Load())) < detectionTime {
			err = errOneEra
		}
	}
	slices.Sort(seen)
	return slices.DeleteFunc(slices.Compact(seen), func(v string) bool { return v == "" }), begun, err
}
