package cedar

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/freehold-dev/freehold/controllers/authz"
)

// decided is what is logged of a decision.
type decided struct {
	authz.Decision
	method, name string
	// detail is why there was no decision of the policies; empty for theirs.
	detail string
	began  time.Time
}

// audit tells who asked for what, and what was decided; no arguments, and no
// token.
func (j *judge) audit(r *http.Request, d decided) {
	if j.config.Audit == nil {
		return
	}
	decision := "deny"
	if d.Allowed && d.detail == "" {
		decision = "allow"
	}
	caller := callerOf(r)
	attributes := []slog.Attr{
		slog.String("subject", authz.Shown(caller.Subject)), slog.String("issuer", caller.Issuer),
		slog.String("method", authz.Shown(d.method)), slog.String("name", authz.Shown(d.name)),
		slog.String("decision", decision),
		slog.Any("policies", d.Policies), slog.Any("failed", d.Failed),
	}
	if d.detail != "" {
		attributes = append(attributes, slog.String("detail", d.detail))
	}
	if !d.began.IsZero() {
		attributes = append(attributes, slog.Duration("duration", time.Since(d.began)))
	}
	j.config.Audit.LogAttrs(r.Context(), slog.LevelInfo, "authorization", attributes...)
}
