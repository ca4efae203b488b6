package main

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/cedar"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/controllers/authz"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// guard is what stands between callers and the backend, nil for nothing: first who
// calls, then what.
func guard(run runconfig.RunConfig, login *oidc.Login, memory *budget.Budget, logger *slog.Logger) (func(http.Handler, func(http.ResponseWriter, *http.Request, error)) http.Handler, error) {
	if run.Proxy.Authorization == nil {
		if login == nil {
			return nil, nil //nolint:nilnil // nothing is what is configured
		}
		return func(next http.Handler, _ func(http.ResponseWriter, *http.Request, error)) http.Handler {
			return login.Guard(next)
		}, nil
	}
	policies, err := runspec.Policies(*run.Proxy.Authorization)
	if err != nil {
		return nil, fmt.Errorf("reading the policies of the run config: %w", err)
	}
	return func(next http.Handler, failed func(http.ResponseWriter, *http.Request, error)) http.Handler {
		judge := cedar.Config{
			Policies: policies,
			Caller:   func(*http.Request) authz.Caller { return authz.Caller{Subject: authz.Anonymous} },
			Refuse:   notPermitted, Failed: failed, Audit: auditor(run, logger), Memory: memory, Payer: payer,
		}
		if login == nil {
			return cedar.Middleware(judge)(next)
		}
		judge.Caller = oidc.CallerOf
		return login.Guard(cedar.Middleware(judge)(next))
	}, nil
}

// auditor is told who was let in and who was not, nil for nobody.
func auditor(run runconfig.RunConfig, logger *slog.Logger) *slog.Logger {
	if run.Proxy.NoAudit {
		return nil
	}
	return logger
}

// notPermitted answers a call that the policies stop.
func notPermitted(w http.ResponseWriter, r cedar.Refusal) {
	status, code, name := http.StatusForbidden, proxy.CodeNotPermitted, "NotPermitted"
	switch r.Reason {
	case cedar.NotPermitted:
	case cedar.NotReadable:
		status, code, name = http.StatusBadRequest, proxy.CodeNotJudged, "NotJudged"
	case cedar.HeaderMismatch:
		status, code, name = http.StatusBadRequest, protocol.CodeHeaderMismatch, "HeaderMismatch"
	case cedar.NotFound:
		status, code, name = http.StatusNotFound, protocol.CodeMethodNotFound, "MethodNotFound"
	case cedar.NotFilterable:
		status, code, name = http.StatusBadGateway, proxy.CodeNotJudged, "NotJudged"
	}
	proxy.Answer(w, jsonrpc.Fail(status, code, "%s: %s", name, r.Message), r.ID)
}
