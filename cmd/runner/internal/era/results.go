package era

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// encoded is v as JSON, with the names of maps in order.
func encoded(v any) jsontext.Value {
	data, err := json.Marshal(v, json.Deterministic(true), jsonrpc.Lenient)
	if err != nil {
		// It is made of what a decoder read, of numbers and of texts of ours.
		panic(fmt.Sprintf("encoding a message: %v", err))
	}
	return data
}

func request(id int64, method string, params jsonrpc.Object) *pipeline.Body {
	m := jsonrpc.Message{ID: encoded(id), Method: method, Params: encoded(params)}
	return pipeline.Made(m.Text(), m.ID)
}

func notification(method string, params jsonrpc.Object) []byte {
	return jsonrpc.Message{Method: method, Params: encoded(params)}.Text()
}

// unreadable is the error of a call whose answer is no JSON-RPC. What the answer has may be secret, and is for the
// client of another call.
func unreadable() *jsonrpc.Fault {
	return jsonrpc.Fail(http.StatusBadGateway, protocol.CodeInternal,
		"the backend's answer cannot be read; the call may have run")
}

// answers reports whether a message answers the request of ours that was sent. Who leaves the id out can only mean that
// one: no other is on its way in the exchange.
func answers(m jsonrpc.Message, sent int64) bool {
	return m.Response() && (!m.Identified() || jsonrpc.SameID(m.ID, encoded(sent)))
}

// joinedMembers is an object as encoded makes it, with one copy of what it has if that is long: it may be many MiB, and
// has been read before.
func joinedMembers(o jsonrpc.Object) jsontext.Value {
	if text := o.Joined(); len(text) > budget.Long {
		return text
	}
	return encoded(o)
}

// modernRequest is a request of the modern era, of a client with the given capabilities.
func modernRequest(id int64, method string, params, meta jsonrpc.Object) *pipeline.Body {
	params, meta = with(params, nil), with(meta, jsonrpc.Object{protocol.MetaVersion: encoded(protocol.Modern)})
	if meta[protocol.MetaCapabilities] == nil {
		meta[protocol.MetaCapabilities] = jsontext.Value("{}")
	}
	params["_meta"] = encoded(meta)
	return request(id, method, params)
}

// modernHeaders are the headers of a request of the modern era; name is empty where its method has none.
func modernHeaders(method, name string) http.Header {
	header := http.Header{protocol.HeaderVersion: {protocol.Modern}, protocol.HeaderMethod: {method}}
	if name != "" {
		header.Set(protocol.HeaderName, protocol.Encoded(name))
	}
	return header
}

// with is a copy of an object with other members.
func with(o, more jsonrpc.Object) jsonrpc.Object {
	all := make(jsonrpc.Object, len(o)+len(more))
	maps.Copy(all, o)
	maps.Copy(all, more)
	return all
}

// without is a copy of an object without some members.
func without(o jsonrpc.Object, names ...string) jsonrpc.Object {
	all := maps.Clone(o)
	for _, name := range names {
		delete(all, name)
	}
	return all
}

// cached are the methods whose results tell for how long they may be kept (server/utilities/caching).
var cached = []string{
	"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list",
	"resources/read",
}

// modernResult makes a result of the legacy era one of the modern era. A legacy server does not tell how long a list
// stands, nor who else may see it.
func modernResult(method string, result jsonrpc.Object, server jsontext.Value) jsonrpc.Object {
	all := with(result, jsonrpc.Object{"resultType": encoded("complete")})
	if slices.Contains(cached, method) {
		all["ttlMs"], all["cacheScope"] = jsontext.Value("0"), encoded("private")
	}
	if server != nil {
		all["_meta"] = encoded(with(jsonrpc.Members(result["_meta"]), jsonrpc.Object{protocol.MetaServer: server}))
	}
	return all
}

// modernCapabilities are those of a legacy server that the modern era knows.
func modernCapabilities(capabilities jsontext.Value) jsontext.Value {
	all := jsonrpc.Object{}
	for name, value := range jsonrpc.Members(capabilities) {
		switch name {
		case "experimental", "logging", "completions", "prompts", "resources", "tools", "extensions":
			all[name] = value
		}
	}
	return encoded(all)
}

// failure is what the backend says in place of a result, with the status of its answer. Gateways write errors of their
// own, which need have no code, no message, or neither: a text.
func failure(status int, e jsontext.Value) *jsonrpc.Fault {
	out := jsonrpc.Fail(status, protocol.CodeInternal, "the backend answers HTTP %d", status)
	o := jsonrpc.Members(e)
	if code := o["code"]; code.Kind() == '0' {
		_ = json.Unmarshal(code, &out.Code) //nolint:errcheck // one that is no integer is none
	}
	if text, err := o.Text("message"); err == nil && text != "" {
		out.Message = text
	}
	if e.Kind() == '"' {
		text, _ := jsontext.AppendUnquote(nil, e) //nolint:errcheck // what is not UTF-8 becomes U+FFFD
		out.Message += ": " + string(text)
	}
	return out
}

// modernError makes an error of a legacy server one of the modern era. status is that of its answer, also where the
// server says of a tool, or of a list, that there is no such method: HTTP 404 is for methods that the revision does not
// have, and clients take it for trouble of the transport.
func modernError(status int, e jsontext.Value) *jsonrpc.Fault {
	o, out := jsonrpc.Members(e), failure(status, e)
	if o["data"] != nil {
		out.Data = o["data"]
	}
	switch out.Code {
	case protocol.CodeNotFound:
		out.Code = protocol.CodeInvalidParams
	case protocol.CodeHeaderMismatch, protocol.CodeMissingCapability, protocol.CodeUnsupportedVersion,
		protocol.CodeURLRequired:
		// A client would take these for what the specification has them mean.
		out.Code = protocol.CodeInternal
	}
	return out
}

// legacyResult makes a result of the modern era one of the legacy era.
func legacyResult(result jsonrpc.Object) jsonrpc.Object {
	all := without(result, "resultType", "ttlMs", "cacheScope")
	if meta := jsonrpc.Members(result["_meta"]); meta[protocol.MetaServer] != nil {
		if meta = without(meta, protocol.MetaServer); len(meta) == 0 {
			delete(all, "_meta")
		} else {
			all["_meta"] = encoded(meta)
		}
	}
	return all
}

// legacyCapabilities are those of a modern server that work without a session and a stream of notifications.
func legacyCapabilities(capabilities jsontext.Value) jsontext.Value {
	all := jsonrpc.Object{}
	for name, value := range jsonrpc.Members(capabilities) {
		switch name {
		case "tools", "prompts", "resources":
			all[name] = encoded(without(jsonrpc.Members(value), "listChanged", "subscribe"))
		case "completions", "experimental":
			all[name] = value
		}
	}
	return encoded(all)
}
