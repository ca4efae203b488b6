package proxy

import (
	"net/http"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
)

// answerFailures is the stage that answers a call which fails at the proxy or at a bridge with its error and HTTP 200:
// SDKs drop what comes with HTTP 429 and 5xx. A client that connects gets 503. Whoever does not wait for an answer gets
// the status, and so does a client of HTTP+SSE, which reads nothing of what a POST gets
// (docs/adr/0085-a-refusal-that-people-read.md).
func (t *target) answerFailures(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := flightOf(r.Context())
		if r.Method != http.MethodPost || f.listening() || len(sseIDs(r)) > 0 {
			next.ServeHTTP(w, r)
			return
		}
		failure := &failure{ResponseWriter: w, flight: f, request: r}
		defer failure.release() // also where ReverseProxy panics, since the backend breaks off
		next.ServeHTTP(failure, r)
		failure.answer()
	})
}

// failure is an http.ResponseWriter that holds back a failure of a call until it has come as a whole, and answers the
// call with it. Everything else passes.
type failure struct {
	http.ResponseWriter
	flight  *flight
	request *http.Request
	status  int // of what is held back; 0 for nothing
	text    []byte
	passes  bool
}

// ofTransport reports whether clients take a status for trouble of the transport.
func ofTransport(status int) bool {
	return status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// WriteHeader implements http.ResponseWriter.
func (w *failure) WriteHeader(status int) {
	switch {
	case w.passes || status < http.StatusOK:
		w.ResponseWriter.WriteHeader(status)
	case w.status > 0:
	case ofTransport(status) && !w.flight.theirs.Load():
		w.status = status
	default:
		w.passes = true
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (w *failure) Write(p []byte) (int, error) {
	if !w.passes && w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.status > 0 && len(w.text)+len(p) <= budget.Least {
		w.text = append(w.text, p...)
		return len(p), nil
	}
	w.release()
	return w.ResponseWriter.Write(p)
}

// FlushError is http.ResponseController's.
func (w *failure) FlushError() error {
	if w.answer(); !w.passes {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is http.ResponseController's.
func (w *failure) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// release passes on what is held back.
func (w *failure) release() {
	if w.status == 0 {
		return
	}
	status := w.status
	w.status, w.passes = 0, true
	w.ResponseWriter.WriteHeader(status)
	_, _ = w.ResponseWriter.Write(w.text) //nolint:errcheck // of a client that has left
}

// answer answers the call with what is held back, if that is an error of JSON-RPC.
func (w *failure) answer() {
	if w.status == 0 {
		return
	}
	said, batch, err := jsonrpc.ParseAnswer(w.text)
	if err != nil || batch || said[0].Error == nil {
		return
	}
	call := w.call()
	if call.ID == nil {
		return
	}
	w.flight.failed = w.status
	if call.Connects() {
		w.status = http.StatusServiceUnavailable
		return
	}
	w.status, w.passes = 0, true
	jsonrpc.Write(w.ResponseWriter, http.StatusOK, jsonrpc.Message{ID: call.ID, Error: said[0].Error}.Text())
}

// call is the one call of the request, as far as it is known. What nobody has read yet is read: nothing of it has been
// sent.
func (w *failure) call() jsonrpc.Message {
	body := w.flight.body
	if call := body.Call(); call.ID != nil || w.flight.sent.Load() || !body.Unread() {
		return call
	}
	// What is no message has no call.
	_, _, _ = pipeline.Of(w.request.Context()).Body.Messages(w.request) //nolint:errcheck // as above
	return body.Call()
}

// says notes whether what the client is told of a request is the backend's own word, and not the proxy's nor a
// bridge's.
func (f *flight) says(theirs bool) {
	for _, each := range []*flight{f, f.of} {
		if each != nil {
			each.theirs.Store(theirs)
		}
	}
}
