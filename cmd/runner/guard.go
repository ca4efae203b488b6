package main

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/cedar"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/controllers/authz"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// guard is what stands between callers and the backend, nil for nothing.
func guard(run runconfig.RunConfig, logger *slog.Logger) (func(http.Handler, func(http.ResponseWriter, *http.Request, error)) http.Handler, error) {
	if run.Proxy.Authorization == nil {
		return nil, nil //nolint:nilnil // nothing is what is configured
	}
	policies, err := runspec.Policies(*run.Proxy.Authorization)
	if err != nil {
		return nil, fmt.Errorf("reading the policies of the run config: %w", err)
	}
	return func(next http.Handler, failed func(http.ResponseWriter, *http.Request, error)) http.Handler {
		return cedar.Middleware(cedar.Config{
			Policies: policies,
			Caller:   func(*http.Request) authz.Caller { return authz.Caller{Subject: authz.Anonymous} },
			Refuse:   notPermitted, Failed: failed, Audit: logger,
		})(next)
	}, nil
}

// notPermitted answers a call that the policies stop.
func notPermitted(w http.ResponseWriter, r cedar.Refusal) {
	status, code, name := http.StatusForbidden, proxy.CodeNotPermitted, "NotPermitted"
	switch r.Reason {
	case cedar.NotPermitted:
	case cedar.NotReadable:
		status, code, name = http.StatusBadRequest, proxy.CodeNotJudged, "NotJudged"
	case cedar.HeaderMismatch:
		status, code, name = http.StatusBadRequest, proxy.CodeHeaderMismatch, "HeaderMismatch"
	case cedar.NotFilterable:
		status, code, name = http.StatusBadGateway, proxy.CodeNotJudged, "NotJudged"
	}
	proxy.Answer(w, status, code, name+": "+r.Message, r.ID)
}
