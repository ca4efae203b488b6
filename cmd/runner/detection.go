package main

import (
	"context"
	"slices"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// detectionTime is how long the runner waits for its proxy to find out which eras of MCP a backend speaks that has answered. Some
// backends never tell: clients of the other era are not served then.
const detectionTime = 15 * time.Second

// detection is whether the proxy knows which eras of MCP the backend speaks. Until then it passes on what it gets: a client of the
// other era is refused (MCP specification 2026-07-28, basic/versioning). The zero detection has seen no answer yet.
type detection struct{ since time.Time }

// over reports whether the proxy knows it, or whether it is not waited for any more. agreed are the revisions to which the proxy and
// the runner agreed: the modern one with any backend that the proxy knows, since it translates. None agreed says nothing.
func (d *detection) over(agreed ...string) bool {
	if len(agreed) == 0 || slices.Max(agreed) >= protocol.Modern {
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
