package era

import (
	"bytes"
	"maps"
	"net/http"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
)

// Mixed is what the backend runs while its pods are replaced by those of another content.
const Mixed = "mixed"

// try passes on a call of a modern client while the pods of the backend are replaced, and translates it where the pod
// that gets it refuses the revision: then the call has not run. Until the pods are all new it is not known again which
// eras they speak.
func (t *Translator) try(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
	answer := &heldBack{ResponseWriter: w, header: w.Header().Clone()}
	whole := false
	defer func() {
		if !whole { // ReverseProxy panics where the backend breaks off
			answer.release()
		}
	}()
	content := t.config.Content()
	t.next.ServeHTTP(answer, r)
	if whole = true; answer.text == nil {
		return
	}
	said := wordsOf(media.Text(answer.text.Bytes()))
	if len(said.messages) != 1 || len(supported(said.messages[0])) == 0 {
		answer.release()
		return
	}
	versions := supported(said.messages[0])
	t.config.Log.Info("a pod of the backend refuses what another one speaks", "versions", versions)
	speaks := &found{legacy: true, versions: versions, content: content, until: time.Now().Add(remembered)}
	if known := t.state.Load(); known.of(content) {
		speaks.path = known.path
	}
	t.state.Store(speaks)
	t.serveModern(w, t.at(r), m)
}

// maxRefusal is the longest refusal that is looked at: it needs no room of the memory's.
const maxRefusal = budget.Least

// heldBack is an http.ResponseWriter that holds back an answer with HTTP 400.
type heldBack struct {
	http.ResponseWriter
	header http.Header   // until the answer passes
	text   *bytes.Buffer // nil unless one is held back
	passes bool
}

// Header implements http.ResponseWriter.
func (h *heldBack) Header() http.Header {
	if h.passes {
		return h.ResponseWriter.Header()
	}
	return h.header
}

// WriteHeader implements http.ResponseWriter.
func (h *heldBack) WriteHeader(status int) {
	switch {
	case h.passes || status < http.StatusOK:
	case status == http.StatusBadRequest && h.text == nil:
		h.text = &bytes.Buffer{}
	default:
		h.pass(status)
	}
}

// Write implements io.Writer.
func (h *heldBack) Write(p []byte) (int, error) {
	if !h.passes && h.text == nil {
		h.WriteHeader(http.StatusOK)
	}
	if h.text != nil && h.text.Len()+len(p) <= maxRefusal {
		return h.text.Write(p)
	}
	h.release()
	return h.ResponseWriter.Write(p)
}

// FlushError is http.ResponseController's.
func (h *heldBack) FlushError() error {
	if !h.passes {
		return nil
	}
	return http.NewResponseController(h.ResponseWriter).Flush()
}

// Unwrap is http.ResponseController's.
func (h *heldBack) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// release passes on what is held back.
func (h *heldBack) release() {
	if text := h.text; text != nil {
		h.text = nil
		h.pass(http.StatusBadRequest)
		_, _ = h.ResponseWriter.Write(text.Bytes()) //nolint:errcheck // of a client that has left
	}
}

func (h *heldBack) pass(status int) {
	h.passes = true
	to := h.ResponseWriter.Header()
	clear(to)
	maps.Copy(to, h.header)
	h.ResponseWriter.WriteHeader(status)
}
