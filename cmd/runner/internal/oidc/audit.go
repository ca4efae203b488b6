package oidc

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/freehold-dev/freehold/controllers/authz"
)

// audit logs who is not let in. Whoever reaches the proxy can be refused as often as
// it likes, so it logs refusalRate a second, after refusalBurst, and then how many it
// left out.
type audit struct {
	log   *slog.Logger
	limit *rate.Limiter

	mu         sync.Mutex
	suppressed int
}

const refusalRate, refusalBurst = 5, 50

func newAudit(log *slog.Logger) *audit {
	return &audit{log: log, limit: rate.NewLimiter(refusalRate, refusalBurst)}
}

// refused logs a refusal: never the token, and of its claims the name and the issuer
// alone, where it is valid.
func (a *audit) refused(r *http.Request, caller authz.Caller, why refusal) {
	if a.log == nil {
		return
	}
	if !a.limit.Allow() {
		a.suppress()
		return
	}
	a.log.LogAttrs(r.Context(), slog.LevelInfo, "authentication",
		slog.String("client", r.RemoteAddr), slog.String("subject", authz.Shown(caller.Subject)),
		slog.String("issuer", caller.Issuer),
		slog.String("decision", "deny"), slog.Int("status", why.status), slog.String("detail", why.message))
}

// suppress counts a refusal that is not logged. The first has the count logged when
// its second is over.
func (a *audit) suppress() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.suppressed++; a.suppressed > 1 {
		return
	}
	time.AfterFunc(time.Second, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.log.Info("authentication", "decision", "deny", "suppressed", a.suppressed)
		a.suppressed = 0
	})
}
