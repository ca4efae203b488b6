package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// Denied is a request whose sender may not have what it asks for. Another token would not cure that, which is what
// clients take HTTP 401 and 403 for, so its calls are answered (docs/adr/0055-a-refusal-is-an-answer.md).
type Denied struct {
	Code int
	// Message is all that models read of it: who may not do what, why, and who can change that.
	Message string
}

// Deny answers each call of a request, of which none is run: a call of a tool with a result that is an error, as models
// read it, and every other one with an error of JSON-RPC. Clients of HTTP+SSE read nothing of what a POST gets, so
// their answers go to their streams, by next. Where nobody waits for an answer the request itself is wrong (HTTP 400).
// It returns the status.
func Deny(w http.ResponseWriter, r *http.Request, next http.Handler, d Denied) (status int) {
	// Of what is no message nobody waits for an answer.
	messages, batch, _ := pipeline.Of(r.Context()).Body.Messages(r) //nolint:errcheck // as above
	if batch {
		d.Message = "nothing of this batch is run: " + d.Message
	}
	var answers [][]byte
	for _, m := range messages {
		if m.Call() {
			answers = append(answers, d.answer(r.Header, m))
		}
	}
	if f, ok := r.Context().Value(flightKey{}).(*flight); ok {
		f.denied = len(answers) > 0
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case len(answers) == 0:
		jsonrpc.Write(w, http.StatusBadRequest, jsonrpc.Fail(0, d.Code, "%s", d.Message).Response(nil))
		return http.StatusBadRequest
	case len(sseIDs(r)) > 0 && next != nil:
		return onStream(w, r, next, listed(answers))
	case batch:
		jsonrpc.Write(w, http.StatusOK, listed(answers))
	default:
		jsonrpc.Write(w, http.StatusOK, answers[0])
	}
	return http.StatusOK
}

func listed(answers [][]byte) []byte {
	return append(append([]byte("["), bytes.Join(answers, []byte(","))...), ']')
}

// answer is the answer to one call.
func (d Denied) answer(header http.Header, m jsonrpc.Message) []byte {
	if m.Method != protocol.MethodCallTool {
		return jsonrpc.Fail(0, d.Code, "%s", d.Message).Response(m.ID)
	}
	type content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	result := struct {
		Kind    string    `json:"resultType,omitempty"`
		Content []content `json:"content"`
		IsError bool      `json:"isError"`
	}{Content: []content{{"text", d.Message}}, IsError: true}
	if jsonrpc.Modern(header, m) {
		result.Kind = "complete"
	}
	text, _ := json.Marshal(result) //nolint:errcheck,errchkjson // texts
	return jsonrpc.Result(m.ID, text)
}

// onStream has the bridge that keeps the session of a client of HTTP+SSE say answers on the session's stream. A bridge
// of before takes no PUT; there the client gets them with a status that has it read them.
func onStream(w http.ResponseWriter, r *http.Request, next http.Handler, answers []byte) (status int) {
	put := r.Clone(r.Context())
	put.Method, put.Body, put.ContentLength, put.TransferEncoding, put.Trailer = http.MethodPut,
		io.NopCloser(bytes.NewReader(answers)), int64(len(answers)), nil, nil
	put.Header.Del("Content-Encoding")
	put.Header.Del("Content-Length")
	put.Header.Del("Expect")
	put.Header.Set("Content-Type", media.JSON)
	o := &unlessNotAllowed{ResponseWriter: w, status: http.StatusOK}
	next.ServeHTTP(o, put)
	if o.status != http.StatusMethodNotAllowed {
		return o.status
	}
	w.Header().Del("Allow")
	jsonrpc.Write(w, http.StatusBadRequest, answers)
	return http.StatusBadRequest
}

// unlessNotAllowed passes an answer on unless its status is HTTP 405.
type unlessNotAllowed struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (u *unlessNotAllowed) WriteHeader(status int) {
	if u.status = status; status != http.StatusMethodNotAllowed {
		u.ResponseWriter.WriteHeader(status)
	}
}

// Write implements io.Writer.
func (u *unlessNotAllowed) Write(p []byte) (int, error) {
	if u.status == http.StatusMethodNotAllowed {
		return len(p), nil
	}
	return u.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (u *unlessNotAllowed) Flush() {
	if u.status != http.StatusMethodNotAllowed {
		_ = http.NewResponseController(u.ResponseWriter).Flush() //nolint:errcheck // a client that left is seen by the next write
	}
}
