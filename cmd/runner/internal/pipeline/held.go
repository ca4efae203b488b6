package pipeline

import (
	"bytes"
	"maps"
	"net/http"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
)

// maxHeld is the longest answer that is held back: it needs no room of the memory's.
const maxHeld = budget.Least

// Held is an http.ResponseWriter that holds back a short answer with some status, until it is released, or taken back
// for another one. Any other answer passes. Make it with Hold.
type Held struct {
	http.ResponseWriter
	holds  func(status int) bool
	before http.Header // when nothing had been answered
	status int         // of what is held back; 0 for nothing
	text   bytes.Buffer
	passes bool
}

// Hold holds back answers with a status of which holds is true.
func Hold(w http.ResponseWriter, holds func(status int) bool) *Held {
	return &Held{ResponseWriter: w, holds: holds, before: maps.Clone(w.Header())}
}

// Text is what is held back; ok is false where nothing is.
func (h *Held) Text() (text []byte, ok bool) { return h.text.Bytes(), h.status > 0 }

// TakeBack forgets what is held back. The next answer begins anew, and passes.
func (h *Held) TakeBack() {
	header := h.ResponseWriter.Header()
	clear(header)
	maps.Copy(header, h.before)
	h.status, h.passes = 0, true
	h.text.Reset()
}

// Release passes on what is held back.
func (h *Held) Release() {
	if h.status == 0 {
		return
	}
	status := h.status
	h.status, h.passes = 0, true
	h.ResponseWriter.WriteHeader(status)
	_, _ = h.ResponseWriter.Write(h.text.Bytes()) //nolint:errcheck // of a client that has left
}

// WriteHeader implements http.ResponseWriter.
func (h *Held) WriteHeader(status int) {
	switch {
	case h.passes || status < http.StatusOK:
		h.ResponseWriter.WriteHeader(status)
	case h.status > 0:
	case h.holds(status):
		h.status = status
	default:
		h.passes = true
		h.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (h *Held) Write(p []byte) (int, error) {
	if !h.passes && h.status == 0 {
		h.WriteHeader(http.StatusOK)
	}
	if h.status > 0 && h.text.Len()+len(p) <= maxHeld {
		return h.text.Write(p)
	}
	h.Release()
	return h.ResponseWriter.Write(p)
}

// FlushError is http.ResponseController's.
func (h *Held) FlushError() error {
	if !h.passes {
		return nil
	}
	return http.NewResponseController(h.ResponseWriter).Flush()
}

// Unwrap is http.ResponseController's.
func (h *Held) Unwrap() http.ResponseWriter { return h.ResponseWriter }
