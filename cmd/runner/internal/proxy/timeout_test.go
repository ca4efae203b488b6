package proxy

import (
	"log/slog"
	"testing"
)

// A stream lasts for as long as both sides like: no timeout of the server may end it.
func TestStreamsHaveNoTimeout(t *testing.T) {
	p := alone(Config{
		Upstream: fixed(t, "http://127.0.0.1:1"),
		Log:      slog.New(slog.DiscardHandler),
	})
	if s := p.Server(); s.WriteTimeout != 0 || s.ReadTimeout != 0 || s.ReadHeaderTimeout == 0 {
		t.Errorf("writing has %s, reading %s, and reading headers %s", s.WriteTimeout, s.ReadTimeout, s.ReadHeaderTimeout)
	}
}
