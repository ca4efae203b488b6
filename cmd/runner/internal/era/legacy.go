package era

import (
	"context"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/headers"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// serveLegacy serves a client of the legacy era from a modern backend, without a session: nothing that needs one is
// offered.
func (t *Translator) serveLegacy(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
	out := answerTo(w)
	switch {
	case !m.Identified():
		w.WriteHeader(http.StatusAccepted) // initialized, progress: of nothing that is kept
	case m.Method == "initialize":
		t.introduce(out, r, m)
	case m.Method == "ping":
		out.end(http.StatusOK, jsonrpc.Result(m.ID, jsontext.Value("{}")))
	case !slices.Contains(translated, m.Method):
		out.fail(m.ID, jsonrpc.Fail(http.StatusOK, protocol.CodeMethodNotFound,
			"the method %s needs a session, which the server does not have", m.Method))
	default:
		ctx, done := t.config.Running.begin(r.Context(), t.clientOf(r), m.ID)
		defer done()
		t.modernCall(out, r.WithContext(ctx), m)
	}
}

// introduce answers initialize from server/discover.
func (t *Translator) introduce(out *output, r *http.Request, m jsonrpc.Message) {
	answer, err := t.ask(r.Context(), r, modernRequest(t.newID(), protocol.MethodDiscover, nil, nil),
		modernHeaders(protocol.MethodDiscover, ""))
	if r.Context().Err() != nil {
		out.cut(r.Context(), m.ID)
		return
	}
	if err != nil {
		out.fail(m.ID, jsonrpc.Fail(http.StatusBadGateway, protocol.CodeInternal,
			"the backend does not answer server/discover: %v", err))
		return
	}
	result, err := jsonrpc.ReadAnswer(answer.message.Result)
	if err != nil {
		t.forget()
		out.relayed(m.ID, answer)
		return
	}
	server := jsonrpc.At(result["_meta"], protocol.MetaServer)
	if server == nil {
		server = jsontext.Value(`{"name":"unknown","version":"unknown"}`) // the modern era need not tell
	}
	hello := jsonrpc.Object{
		"protocolVersion": encoded(protocol.Agreed(jsonrpc.TextAt(m.Params, "protocolVersion"), protocol.Legacy)),
		"capabilities":    legacyCapabilities(result["capabilities"]), "serverInfo": server,
	}
	if words := result["instructions"]; words != nil {
		hello["instructions"] = words
	}
	out.end(http.StatusOK, jsonrpc.Result(m.ID, encoded(hello)))
}

// modernCall sends a call to a modern backend, and once more with the headers of its tool if the backend misses those
// (HeaderMismatch, MCP specification 2026-07-28, basic/transports/streamable-http, client behavior): then it has not
// run.
func (t *Translator) modernCall(out *output, r *http.Request, m jsonrpc.Message) {
	said := jsonrpc.Members(m.Params)
	meta := jsonrpc.Members(said["_meta"])
	name, _ := said.Text(protocol.NameMember[m.Method]) //nolint:errcheck // the backend refuses what is no name
	for attempt := 1; ; attempt++ {
		header := modernHeaders(m.Method, name)
		if m.Method == protocol.MethodCallTool {
			t.headers.Add(header, name, said["arguments"])
		}
		id := t.newID()
		x := t.start(r.Context(), r, http.MethodPost, modernRequest(id, m.Method, said, meta), header)
		again := t.relayLegacy(out, r, m, x, id, attempt == 1)
		x.cancel()
		if !again {
			return
		}
		err := t.headers.Learn(r.Context(), t.list(r))
		if r.Context().Err() != nil {
			out.cut(r.Context(), m.ID)
			return
		}
		if err != nil {
			out.fail(m.ID, jsonrpc.Fail(http.StatusOK, protocol.CodeInternal,
				"the backend wants headers of its tool, and does not list them"))
			return
		}
	}
}

// relayLegacy passes on what a modern backend says about a call. It reports whether the call was not taken for the want
// of headers, if that may be tried again.
func (t *Translator) relayLegacy(
	out *output, r *http.Request, m jsonrpc.Message, x *exchange, id int64, first bool,
) (again bool) {
	t.relay(r.Context(), out, m.ID, x, words{}, nil, func(said jsonrpc.Message) (last bool) {
		switch {
		case said.Result != nil && answers(said, id):
			t.finish(out, m, jsonrpc.Members(said.Result))
			return true
		case said.Error != nil && answers(said, id):
			again = first && m.Method == protocol.MethodCallTool &&
				failure(x.status, said.Error).Code == protocol.CodeHeaderMismatch
			if !again {
				t.sorry(out, m, reply{status: x.status, header: x.answered, message: said})
			}
			return true
		case said.Method != "" && !said.Identified():
			out.event(notification(said.Method, jsonrpc.Members(said.Params)))
		}
		return false
	})
	return again
}

func (t *Translator) finish(out *output, m jsonrpc.Message, result jsonrpc.Object) {
	if kind, err := result.Text("resultType"); err == nil && kind != "" && kind != "complete" {
		out.fail(m.ID, jsonrpc.Fail(http.StatusOK, protocol.CodeInvalidRequest,
			"the server asks for input (%s), which a client of the legacy era cannot give it", kind))
		return
	}
	out.end(http.StatusOK, jsonrpc.Result(m.ID, joinedMembers(legacyResult(result))))
}

// sorry passes an error on. A legacy client takes a status other than 200 for trouble of the transport, and 404 for a
// lost session.
func (t *Translator) sorry(out *output, m jsonrpc.Message, a reply) {
	code := failure(a.status, a.message.Error).Code
	if inconclusive(a.status) && !tooLong(a.status) { // a call that is too long is no trouble of the transport
		out.relayed(m.ID, a)
		return
	}
	e := modernError(a.status, a.message.Error)
	e.Status = http.StatusOK
	switch code {
	case protocol.CodeMissingCapability:
		e.Code, e.Message = protocol.CodeInvalidRequest, "the call needs a client of revision "+protocol.Modern+": "+e.Message
	case protocol.CodeUnsupportedVersion:
		t.forget() // it is not the modern backend that it was
	}
	out.fail(m.ID, e)
}

// list is the question which tools a modern backend has.
func (t *Translator) list(r *http.Request) headers.List {
	return func(ctx context.Context, cursor jsontext.Value) (jsontext.Value, error) {
		return result(t.ask(ctx, r, modernRequest(t.newID(), protocol.MethodListTools, page(cursor), nil),
			modernHeaders(protocol.MethodListTools, "")))
	}
}

// page are the parameters for a page of a list, the first without a cursor.
func page(cursor jsontext.Value) jsonrpc.Object {
	if cursor == nil {
		return jsonrpc.Object{}
	}
	return jsonrpc.Object{"cursor": cursor}
}

// result is that of an answer, which has to have one.
func result(a reply, err error) (jsontext.Value, error) {
	if err == nil && a.message.Result == nil {
		err = &refusedError{a}
	}
	return a.message.Result, err
}
