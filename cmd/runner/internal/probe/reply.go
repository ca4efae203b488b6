package probe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/freehold-dev/freehold/apis/printable"
	"github.com/freehold-dev/freehold/cmd/runner/internal/bridge"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

// source is who gave an answer.
type source int

const (
	// nobody: there is no answer.
	nobody source = iota
	// theBackend is the server itself, in the backend's pod or elsewhere.
	theBackend
	// theBridge: its server does not work.
	theBridge
	theProxy
	// aProxyWithoutKey lacks the key of session ids.
	aProxyWithoutKey
)

// reply is what is remembered of an answer: enough to say what answered. The zero reply is none.
type reply struct {
	from   source
	status int
	media  string // the media type
	code   int    // of a JSON-RPC error
	said   string // its message; of HTTP 403 else what the body says
	reason string // of its data, where it has one: why the proxy or a bridge has not called
	detail string // the reason in words
	// retry is after which time the next question may come, of a backend that wants to be asked less often; else 0.
	retry time.Duration
}

// peeked is how much of an answer is looked at beforehand.
const peeked = 4 << 10

// replyOf looks at an answer without taking anything of it. A server that is bridged is called by a bridge.
func replyOf(response *http.Response, bridged bool) *reply {
	r := &reply{status: response.StatusCode, media: media.Type(response.Header)}
	r.read(response)
	if r.from = r.source(bridged); r.busy() {
		r.retry = retryAfter(response.Header, time.Now())
	}
	return r
}

// retryAfter is what the header of this name says (https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3), 0 where that
// is nothing.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// read looks at the beginning of an answer that fails.
func (r *reply) read(response *http.Response) {
	if r.status != http.StatusForbidden && (r.media != media.JSON || r.status < http.StatusBadRequest) {
		return
	}
	body := response.Body
	begin, _ := io.ReadAll(io.LimitReader(body, peeked)) //nolint:errcheck // who reads on meets it again
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), body), body}
	if r.status == http.StatusForbidden && !media.Encoded(response.Header) {
		r.said = string(begin)
	}
	if r.media != media.JSON {
		return
	}
	var message struct {
		Error struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	if json.Unmarshal(media.Text(begin), &message) != nil {
		return
	}
	r.code, r.said = message.Error.Code, cmp.Or(message.Error.Message, r.said)
	var why struct {
		Reason string `json:"reason"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal(message.Error.Data, &why) == nil { // data is anything
		r.reason, r.detail = why.Reason, why.Detail
	}
}

// source tells by the code who gave an answer. That of an absent key may be a backend's too.
func (r *reply) source(bridged bool) source {
	switch {
	case r.code == proxy.CodeNoSessions && r.status == http.StatusServiceUnavailable &&
		(r.reason == proxy.ReasonNoSessions || r.reason == proxy.ReasonKeyNotTaken):
		return aProxyWithoutKey
	case r.code <= proxy.CodeNotEnforced && r.code >= proxy.CodeNotJudged:
		return theProxy
	case bridged && r.code <= bridge.CodeServerEnded && r.code >= bridge.CodeBusy:
		return theBridge
	}
	return theBackend
}

// barred reports whether the backend answered that it does not let the runner in: it asks for credentials,
// or for something else that the runner's request does not have.
func (r *reply) barred() bool {
	return r.from == theBackend && (r.status == http.StatusUnauthorized || r.status == http.StatusForbidden)
}

// busy reports whether the backend wants to be asked less often.
func (r *reply) busy() bool { return r.from == theBackend && r.status == http.StatusTooManyRequests }

// refused reports whether there is an endpoint that takes messages, though not
// this one: the runner's need not be like a client's.
func (r *reply) refused() bool {
	return r.from == theBackend && r.status >= http.StatusBadRequest && r.status < http.StatusInternalServerError &&
		r.status != http.StatusNotFound && r.status != http.StatusMethodNotAllowed
}

// begun reports whether there is an answer as MCP has it, of which no error is known: the beginning of one to a
// request, or that to a notification.
func (r *reply) begun() bool {
	return r.from == theBackend && r.code == 0 && (r.status == http.StatusAccepted ||
		r.status == http.StatusOK && (r.media == media.JSON || r.media == media.Events))
}

// stays reports whether an answer that refuses a session is the same the next moment: of a backend that has none for
// this client, or of a proxy without a key for their ids.
func (r *reply) stays() bool {
	return r.from == aProxyWithoutKey || r.from == theBackend && r.status < http.StatusInternalServerError
}

// String is what an answer was.
func (r *reply) String() string {
	text := fmt.Sprintf("HTTP %d", r.status)
	switch {
	case r.code != 0:
		text += fmt.Sprintf(", JSON-RPC error %d", r.code)
	case r.status < http.StatusMultipleChoices:
		text += ", " + cmp.Or(printable.Line(r.media, maxWords), "of no type")
	}
	return text
}
