package target

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/era"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// translate is what lets clients of either era of MCP use the backend. It stands behind the policies: they judge what
// a client sent, and filter what it gets.
func (t *Target) translate(
	loggedIn bool, log *slog.Logger,
) func(to *proxy.Upstream, next, send http.Handler) proxy.Translator {
	trusts, running := t.config.Run.Proxy.TrustForwardedHeaders, new(era.Running)
	return func(to *proxy.Upstream, next, send http.Handler) proxy.Translator {
		probeTime := time.Duration(0)
		if to.Bridged {
			probeTime = era.BridgePatience
		}
		who := func(r *http.Request) string { return identity(r, loggedIn, trusts) }
		translator := era.New(era.Config{
			Caller:     func(r *http.Request) string { return ofPod(r) + who(r) },
			Credential: func(name string) bool { return credential(name, trusts) },
			Content:    t.runsAt(to),
			Own:        func(r *http.Request) bool { return proxy.IsOwn(r.Context()) },
			ProbeTime:  probeTime,
			Running:    running,
			Log:        log,
		}, next, send)
		if t.virtual != nil {
			return &apart{Translator: translator, keys: t.keys, who: who, content: session.Content(to.Hash)}
		}
		return translator
	}
}

// ofPod has a question to one pod share no session with another pod's, nor with a client's call.
func ofPod(r *http.Request) string {
	if pod := pipeline.Of(r.Context()).Pod; pod.IsValid() {
		return pod.String() + " "
	}
	return ""
}

// ofTheWay are forwarding headers that say where a call comes from and by which way, which may be new with each
// connection, and not who sends it.
var ofTheWay = []string{
	"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Proto",
	"X-Forwarded-Scheme", "X-Forwarded-Server",
}

// identity tells callers apart, whether the proxy lets them in, or the backend by an API key or a parameter of the
// query, or the load balancer in front, if its headers are trusted, which else stay with the proxy. A virtual server
// tells its own callers apart.
func identity(r *http.Request, loggedIn, trustForwarded bool) string {
	parts := []string{r.URL.RawQuery}
	if apart := r.Header[protocol.HeaderApart]; len(apart) > 0 {
		parts = append(append(parts, protocol.HeaderApart), apart...)
	}
	if loggedIn {
		caller := pipeline.Of(r.Context()).Caller()
		parts = append(parts, caller.Issuer, caller.Subject)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if credential(name, trustForwarded) && !slices.Contains(ofTheWay, name) {
			parts = append(append(parts, name), r.Header[name]...)
		}
	}
	for i, part := range parts {
		parts[i] = strconv.Quote(part)
	}
	return strings.Join(parts, " ")
}

// credential reports whether the backend may let somebody in by a header: an API key, or what the load balancer in
// front says, if its headers are trusted.
func credential(name string, trustForwarded bool) bool {
	return proxy.APIKey(name) || trustForwarded && (name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-"))
}
