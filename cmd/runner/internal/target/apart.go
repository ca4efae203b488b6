package target

import (
	"crypto/rand"
	"net/http"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
	"github.com/freehold-dev/freehold/cmd/runner/internal/virtual"
)

// apart keeps the clients of a virtual server apart at its members, which may keep sessions with their backends: by who
// calls, and by a session of the client's. Of that nobody keeps anything: its sealed id is all there is, and each proxy
// can open it. A client that does not send it back is served as well.
type apart struct {
	proxy.Translator
	keys    *session.Keys
	who     func(*http.Request) string
	content [8]byte
}

// nobody is who calls without anything by which callers are told apart.
const nobody = `""`

// ServeHTTP implements http.Handler.
func (a *apart) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ids, nonce := r.Header.Values(protocol.HeaderSession), ""
	switch {
	case jsonrpc.NamesModern(r.Header): // this era has no sessions
	case len(ids) == 0 && r.Method == http.MethodPost && !proxy.IsOwn(r.Context()):
		messages, batch, malformed, err := pipeline.Of(r.Context()).Read(w, r)
		if err != nil {
			return
		}
		if malformed == nil && !batch && messages[0].Method == "initialize" {
			a.begin(w, r)
		}
	case len(ids) > 0:
		s, err := a.keys.Open(proxy.CallerOf(r), ids[0])
		if err != nil || len(ids) > 1 || s.Content != a.content {
			proxy.Answer(w, proxy.ErrSessionUnknown, nil)
			return
		}
		if nonce = s.ID; r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	r = r.Clone(r.Context())
	r.Header.Del(protocol.HeaderSession)
	if who := a.who(r); who != nobody || nonce != "" {
		r = r.WithContext(virtual.Apart(r.Context(), a.keys.Mark(who+nonce)))
	}
	a.Translator.ServeHTTP(w, r)
}

// begin begins a session. Without a key there is none.
func (a *apart) begin(w http.ResponseWriter, r *http.Request) {
	id, err := a.keys.Seal(proxy.CallerOf(r), session.Session{ID: rand.Text(), Issued: time.Now(), Content: a.content})
	if err == nil {
		w.Header().Set(protocol.HeaderSession, id)
	}
}
