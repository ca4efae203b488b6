package bridge

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// Codes of the JSON-RPC errors that the bridge itself answers. They are none of the
// proxy's, which leaves few of those free that MCP leaves to implementations; JSON-RPC
// leaves all outside of -32768 to -32000 (https://www.jsonrpc.org/specification#error_object).
const (
	// CodeServerEnded: the server's process or connection ended before it answered, or
	// the server did not say that it took the call. The call may have run. HTTP 502.
	CodeServerEnded = -31006
	// CodeServerUnusable: the server cannot be started, prints what is not MCP, does not
	// read, refuses a message, or answers with a message that is too long, or for which there is no room beside those that
	// wait for clients. HTTP 502.
	CodeServerUnusable = -31007
	// CodeBusy: the bridge has as many sessions, calls or bytes in flight as it takes,
	// or the server starts, or is started again after a pause. Nothing was run. HTTP 503 with
	// Retry-After.
	CodeBusy = -31008
	// CodeNotAProxy: the request does not show what the proxies of this server alone have. HTTP 421.
	CodeNotAProxy = -31009
)

// retryAfter is how long a client is asked to wait.
const retryAfter = 2 * time.Second

// errUnstartable is the Err of a fault that no later start can mend.
var errUnstartable = errors.New("the server cannot be started")

func busy(format string, args ...any) *jsonrpc.Fault {
	return jsonrpc.Fail(http.StatusServiceUnavailable, CodeBusy, "Busy: "+format, args...)
}

// because adds to a fault the reason that its cause has, if it has one.
func because(f *jsonrpc.Fault, cause error) *jsonrpc.Fault {
	var reasoned interface {
		error
		Because() (reason, detail string)
	}
	if errors.As(cause, &reasoned) {
		return f.Because(reasoned.Because())
	}
	return f
}

func writeFault(w http.ResponseWriter, f *jsonrpc.Fault, id []byte) {
	writeJSON(w, f.Status, f.Response(id))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
	}
	jsonrpc.Write(w, status, body)
}

// modernStatus is the HTTP status of an error of a method in the modern era. A server that says so of a method which
// names a tool, a prompt or a resource does not have that one, and has the method
// (https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http).
func modernStatus(method string, code int) int {
	switch code {
	case protocol.CodeMethodNotFound:
		if protocol.NameMember[method] != "" {
			return http.StatusOK
		}
		return http.StatusNotFound
	case protocol.CodeInvalidParams, protocol.CodeHeaderMismatch, protocol.CodeMissingCapability,
		protocol.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
