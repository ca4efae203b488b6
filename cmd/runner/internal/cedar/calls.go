package cedar

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/controllers/authz"
)

// rule is what a method asks of policies. Without calls it is open to every
// caller that was let in.
type rule struct {
	// lists says that the answer is filtered.
	lists bool
	// legacy says that revision 2026-07-28 does not have the method any more.
	legacy bool
	// calls are what the parameters ask for.
	calls func(params jsontext.Value) ([]authz.Call, error)
}

// rules are all methods that a client may send (the schemas of revisions
// 2024-11-05 to 2026-07-28). What is not here is refused: nobody can say what a
// method of a later revision does.
var rules = map[string]rule{
	"initialize": {legacy: true}, "ping": {legacy: true}, "logging/setLevel": {legacy: true}, "server/discover": {},
	"notifications/initialized": {}, "notifications/cancelled": {}, "notifications/progress": {},
	"notifications/roots/list_changed": {},
	"tools/call":                       {calls: named(authz.CallTool, authz.Tool)},
	"prompts/get":                      {calls: named(authz.GetPrompt, authz.Prompt)},
	"resources/read":                   {calls: resource},
	"resources/subscribe":              {calls: resource, legacy: true},
	"resources/unsubscribe":            {calls: resource, legacy: true},
	"completion/complete":              {calls: completed},
	"subscriptions/listen":             {calls: listened},
	"tools/list":                       {lists: true, calls: listed(authz.ListTools, "tool")},
	"prompts/list":                     {lists: true, calls: listed(authz.ListPrompts, "prompt")},
	"resources/list":                   {lists: true, calls: listed(authz.ListResources, "resource")},
	"resources/templates/list":         {lists: true, calls: listed(authz.ListResources, "resource")},
}

// maxValues is how many names and values the arguments of a call may have: policies
// read them as values that take tens of times their text.
const maxValues = 20_000

var (
	errValues = fmt.Errorf("params.arguments has more than %d names and values", maxValues)
	errURIs   = errors.New("params.notifications.resourceSubscriptions is not a list of URIs")
)

func named(action, kind string) func(jsontext.Value) ([]authz.Call, error) {
	return func(params jsontext.Value) ([]authz.Call, error) {
		p, err := jsonrpc.Read(params, "name", "arguments")
		if err != nil {
			return nil, err
		}
		name, err := p.Text("name")
		if err == nil && name == "" {
			err = errors.New("params.name is missing")
		}
		if err == nil && jsonrpc.Exceeds(p["arguments"], maxValues) {
			err = errValues
		}
		return []authz.Call{{Action: action, Type: kind, ID: name, Arguments: p["arguments"]}}, err
	}
}

func resource(params jsontext.Value) ([]authz.Call, error) {
	p, err := jsonrpc.Read(params, "uri")
	if err != nil {
		return nil, err
	}
	uri, err := p.Text("uri")
	if err == nil && uri == "" {
		err = errors.New("params.uri is missing")
	}
	return []authz.Call{read(uri)}, err
}

func read(uri string) authz.Call {
	return authz.Call{Action: authz.ReadResource, Type: authz.Resource, ID: uri}
}

// completed is the prompt or the resource template whose argument is completed:
// who may not use it learns nothing of it.
func completed(params jsontext.Value) ([]authz.Call, error) {
	p, err := jsonrpc.Read(params, "ref")
	if err != nil {
		return nil, err
	}
	ref, err := jsonrpc.Read(p["ref"], "type", "name", "uri")
	if err != nil {
		return nil, err
	}
	kind, wrongKind := ref.Text("type")
	name, wrongName := ref.Text("name")
	uri, wrongURI := ref.Text("uri")
	switch err := errors.Join(wrongKind, wrongName, wrongURI); {
	case err != nil:
		return nil, err
	case kind == "ref/prompt" && name != "":
		return []authz.Call{{Action: authz.GetPrompt, Type: authz.Prompt, ID: name}}, nil
	case kind == "ref/resource" && uri != "":
		return []authz.Call{read(uri)}, nil
	}
	return nil, errors.New("params.ref names neither a prompt nor a resource")
}

// listened are the resources whose changes a subscription tells
// (MCP specification 2026-07-28, subscriptions/listen).
func listened(params jsontext.Value) ([]authz.Call, error) {
	p, err := jsonrpc.Read(params, "notifications")
	if err != nil || p["notifications"] == nil {
		return nil, err
	}
	n, err := jsonrpc.Read(p["notifications"], "resourceSubscriptions")
	if err != nil || n["resourceSubscriptions"] == nil || n["resourceSubscriptions"].Kind() == 'n' {
		return nil, err
	}
	return subscribed(n["resourceSubscriptions"])
}

// subscribed are the resources of a list, each once.
func subscribed(list jsontext.Value) ([]authz.Call, error) {
	decoder := jsontext.NewDecoder(bytes.NewReader(list))
	if begin, err := decoder.ReadToken(); err != nil || begin.Kind() != '[' {
		return nil, errors.Join(err, errURIs)
	}
	var calls []authz.Call
	seen := map[string]bool{}
	for decoder.PeekKind() != ']' {
		token, err := decoder.ReadToken()
		if err != nil || token.Kind() != '"' {
			return nil, errors.Join(err, errURIs)
		}
		uri := token.String()
		if seen[uri] {
			continue
		}
		if len(calls) == jsonrpc.MaxBatch {
			return nil, fmt.Errorf("params.notifications.resourceSubscriptions has more than %d URIs", jsonrpc.MaxBatch)
		}
		seen[uri] = true
		calls = append(calls, read(uri))
	}
	return calls, nil
}

func listed(action, feature string) func(jsontext.Value) ([]authz.Call, error) {
	return func(jsontext.Value) ([]authz.Call, error) {
		return []authz.Call{{Action: action, Type: authz.FeatureType, ID: feature}}, nil
	}
}

// answers refuses an answer to a server that has asked nothing: from revision 2026-07-28
// on a client answers with its next request (multi round-trip requests). Of an older
// revision that cannot be told: another proxy may have carried the question.
func answers(header http.Header) error {
	if _, err := single(header, protocol.HeaderVersion); err != nil {
		return err
	}
	if jsonrpc.NamesModern(header) {
		return fmt.Errorf("an answer to nothing: a server of revision %s asks nothing; send inputResponses with the request",
			protocol.Modern)
	}
	return nil
}

func single(header http.Header, name string) (string, error) {
	values := header.Values(name)
	if len(values) > 1 {
		return "", fmt.Errorf("header %s occurs %d times: send it once", name, len(values))
	}
	return header.Get(name), nil
}
