package target

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/freehold-dev/freehold/cmd/runner/internal/cedar"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	authzconfig "github.com/freehold-dev/freehold/controllers/configs/authz"
)

// authorize judges calls by the policies, nil where there are none.
func (t *Target) authorize(log *slog.Logger) (pipeline.Stage, error) {
	if t.config.Run.Proxy.Authorization == nil {
		return nil, nil //nolint:nilnil // nothing is what is configured
	}
	policies, err := authzconfig.Policies(*t.config.Run.Proxy.Authorization)
	if err != nil {
		return nil, fmt.Errorf("reading the policies of the run config: %w", err)
	}
	return cedar.New(cedar.Config{
		Policies: policies, Refuse: notPermitted, Audit: t.auditor(log),
	}), nil
}

// auditor is told who was let in and who was not, nil for nobody.
func (t *Target) auditor(log *slog.Logger) *slog.Logger {
	if t.config.Run.Proxy.NoAudit {
		return nil
	}
	return log
}

// notPermitted answers a call that the policies stop, or that cannot be held against them.
func notPermitted(w http.ResponseWriter, r *http.Request, next http.Handler, refusal cedar.Refusal) {
	denied := proxy.Denied{Code: proxy.CodeNotPermitted, Message: "NotPermitted: " + refusal.Message}
	status, code, name := http.StatusBadRequest, proxy.CodeNotJudged, "NotJudged"
	switch refusal.Reason {
	case cedar.NotPermitted:
		proxy.Deny(w, r, next, denied)
		return
	case cedar.Unclear:
		denied.Code, denied.Message = proxy.CodeNotJudged, "NotJudged: "+refusal.Message
		proxy.Deny(w, r, next, denied)
		return
	case cedar.NotReadable:
	case cedar.HeaderMismatch:
		code, name = protocol.CodeHeaderMismatch, "HeaderMismatch"
	case cedar.NotFound:
		status, code, name = http.StatusNotFound, protocol.CodeMethodNotFound, "MethodNotFound"
	case cedar.NotFilterable:
		status = http.StatusBadGateway
	}
	proxy.Answer(w, jsonrpc.Fail(status, code, "%s: %s", name, refusal.Message), refusal.ID)
}

// notListed answers a caller who has logged in and is not among those who may call.
func notListed(w http.ResponseWriter, r *http.Request, name string) (status int) {
	return proxy.Deny(w, r, nil, proxy.Denied{
		Code: proxy.CodeNotPermitted, Message: "NotPermitted: " + name +
			" is not among those who may call this server. Its owner can add the " +
			"account to spec.kubernetes.serviceAccounts of the MCPOIDCConfig that the server names",
	})
}
