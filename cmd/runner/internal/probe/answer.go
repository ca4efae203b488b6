package probe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/printable"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/cmd/runner/internal/bridge"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// reply is what is remembered of an answer: enough to say what answered.
type reply struct {
	status int
	media  string // the media type
	code   int    // of a JSON-RPC error
	said   string // its message; of HTTP 403 else what the body says
	reason string // of its data, where it has one: why the proxy or a bridge has not called
	detail string // the reason in words
}

// peeked is how much of an answer is looked at beforehand.
const peeked = 4 << 10

// replyOf looks at an answer without taking anything of it.
func replyOf(response *http.Response) *reply {
	r := &reply{status: response.StatusCode}
	r.media = media.Type(response.Header)
	if r.status != http.StatusForbidden && (r.media != media.JSON || r.status < http.StatusBadRequest) {
		return r
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
		return r
	}
	var message struct {
		Error struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	if json.Unmarshal(media.Text(begin), &message) != nil {
		return r
	}
	r.code, r.said = message.Error.Code, cmp.Or(message.Error.Message, r.said)
	var why struct {
		Reason string `json:"reason"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal(message.Error.Data, &why) == nil { // data is anything
		r.reason, r.detail = why.Reason, why.Detail
	}
	return r
}

// ours reports whether the proxy gave the answer itself.
func (r *reply) ours() bool {
	return r.code <= proxy.CodeNotEnforced && r.code >= proxy.CodeNotJudged || r.noSessions()
}

// noSessions reports whether the proxy lacks the key of session ids. The code alone may
// be a backend's.
func (r *reply) noSessions() bool {
	return r.code == proxy.CodeNoSessions && r.status == http.StatusServiceUnavailable &&
		r.reason == proxy.ReasonNoSessions
}

// barred reports whether the backend answered that it does not let the runner in: it asks for credentials,
// or for something else that the runner's request does not have.
func (r *reply) barred() bool {
	return r != nil && !r.ours() && (r.status == http.StatusUnauthorized || r.status == http.StatusForbidden)
}

// bar says what a backend answered that does not let the runner in.
func (r *reply) bar() string {
	if r.status == http.StatusUnauthorized {
		return "the backend asks for credentials (HTTP 401), so what it offers is not known"
	}
	said := printable.Line(r.said, maxWords)
	if said != "" {
		said = ": " + said
	}
	return fmt.Sprintf("the backend refuses the question (HTTP %d%s), so what it offers is not known: "+
		"servers that check Host answer so, see docs/how-to/transports.md", r.status, said)
}

// refused reports whether there is an endpoint that takes messages, though not
// this one: the runner's need not be like a client's.
func (r *reply) refused() bool {
	return r != nil && !r.ours() && r.status >= http.StatusBadRequest && r.status < http.StatusInternalServerError &&
		r.status != http.StatusNotFound && r.status != http.StatusMethodNotAllowed
}

// unanswered words why no session came about: what answered, and what to write
// instead. The words hold nothing that differs from one asking to the next.
func unanswered(run runconfig.Target, r *reply, err error) conditions.Finding {
	if run.Remote != nil {
		return unansweredElsewhere(run, r, err)
	}
	at := fmt.Sprintf("the backend at port %d", run.Backend.Port)
	switch {
	case run.Backend.Bridge != nil && r.bridged():
		return conditions.False(v1alpha1.ReasonNotAnswering,
			fmt.Sprintf("the bridge of transport %s in the backend's pod says %s", run.Backend.Transport,
				printable.Line(r.said, maxBridge)))
	case errors.Is(err, errTooMuch):
		return conditions.False(v1alpha1.ReasonNotMCP, at+" answers MCP at length: "+errTooMuch.Error())
	case r == nil && errors.Is(err, context.DeadlineExceeded):
		return conditions.False(v1alpha1.ReasonNotAnswering,
			fmt.Sprintf("%s does not answer MCP at %s within %s: look at its log", at, run.Backend.Path, askTime(run)))
	case r == nil:
		return conditions.False(v1alpha1.ReasonNotAnswering,
			at+" does not answer: look at its log, and write the port on which the image listens into spec.port")
	case r.ours() && r.reason == v1alpha1.ReasonNotMCP:
		return conditions.False(r.reason, printable.Line(r.detail, maxName))
	case r.ours() && r.reason == v1alpha1.ReasonNotAsked:
		return conditions.Finding{
			Status: metav1.ConditionUnknown, Reason: r.reason,
			Message: "the cluster's DNS names no pod of the backend that is ready",
		}
	case r.noSessions():
		return conditions.False(v1alpha1.ReasonNotAnswering,
			fmt.Sprintf("%s: write one, as docs/how-to/sessions.md describes", printable.Line(r.detail, maxWords)))
	case r.ours():
		return conditions.False(v1alpha1.ReasonNotAnswering,
			fmt.Sprintf("%s does not answer (%s): look at its log, and write the port on which the image listens into spec.port",
				at, printable.Line(cmp.Or(r.detail, r.said), maxWords)))
	case r.status >= http.StatusInternalServerError:
		return conditions.False(v1alpha1.ReasonNotAnswering,
			fmt.Sprintf("%s answers MCP at %s with HTTP %d: look at its log", at, run.Backend.Path, r.status))
	}
	return conditions.False(v1alpha1.ReasonNotMCP,
		fmt.Sprintf("%s answers, but not MCP at %s (%s): %s", at, run.Backend.Path, r, r.advice()))
}

// maxBridge is the longest text of a bridge's in a sentence of ours, in bytes: the
// server's own words are a part of it.
const maxBridge = 500

// bridged reports whether the bridge gave the answer, because its server does not work.
func (r *reply) bridged() bool {
	return r != nil && r.code <= bridge.CodeServerEnded && r.code >= bridge.CodeBusy
}

// maxWords is the longest text of the backend's in a sentence of ours, in bytes.
const maxWords = 200

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

// advice is what to write instead.
func (r *reply) advice() string {
	switch {
	case r.refused() && r.code == 0:
		return "it refuses an initialize of MCP: write transport: sse if the image speaks the older transport; where it " +
			"wants credentials, HTTP 401 would say so"
	case r.refused():
		return "it refuses an initialize of MCP; where it wants credentials, HTTP 401 would say so"
	case r.status == http.StatusNotFound || r.status == http.StatusMethodNotAllowed:
		return "write the path of its MCP endpoint into spec.path, or transport: sse if the image speaks the older " +
			"transport only"
	}
	return "write the port and path of its MCP endpoint into spec.port and spec.path"
}
