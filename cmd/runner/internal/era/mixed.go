package era

import (
	"net/http"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
)

// Mixed is what the backend runs while its pods are replaced by those of another content.
const Mixed = "mixed"

// passOrTranslate passes on a call of a modern client while the pods of the backend are replaced. Where the pod that
// gets it refuses the revision, the call has not run: it is translated, and so sent a second time. Until the pods are
// all new it is not known again which eras they speak.
func (t *Translator) passOrTranslate(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
	answer := pipeline.Hold(w, func(status int) bool { return status == http.StatusBadRequest })
	defer answer.Release() // also where ReverseProxy panics, since the backend breaks off
	content := t.config.Content()
	t.next.ServeHTTP(answer, r)
	text, refused := answer.Text()
	if !refused {
		return
	}
	said := wordsOf(media.Text(text))
	if len(said.messages) != 1 || len(supported(said.messages[0])) == 0 {
		return
	}
	versions := supported(said.messages[0])
	answer.TakeBack()
	t.config.Log.Info("a pod of the backend refuses what another one speaks", "versions", versions)
	speaks := &found{legacy: true, versions: versions, content: content, until: time.Now().Add(remembered)}
	if known := t.state.Load(); known.of(content) {
		speaks.path = known.path
	}
	t.state.Store(speaks)
	t.serveModern(w, t.at(r), m)
}
