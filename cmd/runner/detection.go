package main

import (
	"context"
	"slices"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// detectionTime is how long the runner waits for its proxy to serve clients of both eras of MCP once the backend has answered. Some
// backends never tell which they speak: clients of the other era are not served then.
const detectionTime = 15 * time.Second

// detection is whether the proxy serves clients of both eras. It does not while it does not know which of them the backend speaks:
// it passes on what it gets, and a client of the other era is refused (MCP specification 2026-07-28, basic/versioning). Nor does it
// begin sessions while cluster DNS does not know the backend's pods yet, which a call without a session does not need. The zero
// detection has seen no answer yet.
type detection struct{ since time.Time }

// over reports whether the proxy serves both, or whether that is not waited for any more. agreed are the revisions to which the proxy
// and the runner agreed: of both eras with any backend that the proxy knows, since it translates. None agreed says nothing.
func (d *detection) over(agreed ...string) bool {
	if len(agreed) == 0 || slices.Min(agreed) < protocol.Modern && slices.Max(agreed) >= protocol.Modern {
		return true
	}
	if d.since.IsZero() {
		d.since = time.Now()
	}
	return time.Since(d.since) >= detectionTime
}

// readiness reports whether calls find an endpoint, of clients of either era: MCP answers, or something that may take another
// message than the runner's.
func (s settings) readiness() func(context.Context) bool {
	detected := &detection{}
	return func(ctx context.Context) bool {
		agreed, reached := s.reached(ctx)
		return reached && detected.over(agreed...)
	}
}
