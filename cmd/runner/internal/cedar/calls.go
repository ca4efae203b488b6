package cedar

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/controllers/authz"
)

// rule is what a method asks of policies. Without calls it is open to every
// caller that was let in.
type rule struct {
	// lists says that the answer is filtered.
	lists bool
	// calls are what the parameters ask for.
	calls func(params jsontext.Value) ([]authz.Call, error)
}

// rules are all methods that a client may send (the schemas of revisions
// 2024-11-05 to 2026-07-28). What is not here is refused: nobody can say what a
// method of a later revision does.
var rules = map[string]rule{
	"initialize": {}, "ping": {}, "server/discover": {}, "logging/setLevel": {},
	"notifications/initialized": {}, "notifications/cancelled": {}, "notifications/progress": {}, "notifications/roots/list_changed": {},
	"tools/call":               {calls: named(authz.CallTool, authz.Tool)},
	"prompts/get":              {calls: named(authz.GetPrompt, authz.Prompt)},
	"resources/read":           {calls: resource},
	"resources/subscribe":      {calls: resource},
	"resources/unsubscribe":    {calls: resource},
	"completion/complete":      {calls: completed},
	"subscriptions/listen":     {calls: listened},
	"tools/list":               {lists: true, calls: listed(authz.ListTools, "tool")},
	"prompts/list":             {lists: true, calls: listed(authz.ListPrompts, "prompt")},
	"resources/list":           {lists: true, calls: listed(authz.ListResources, "resource")},
	"resources/templates/list": {lists: true, calls: listed(authz.ListResources, "resource")},
}

func named(action, kind string) func(jsontext.Value) ([]authz.Call, error) {
	return func(params jsontext.Value) ([]authz.Call, error) {
		var p struct {
			Name      string         `json:"name"`
			Arguments jsontext.Value `json:"arguments"`
		}
		if err := jsonrpc.Members(params, &p, "name", "arguments"); err != nil {
			return nil, err
		}
		if p.Name == "" {
			return nil, errors.New("params.name is missing")
		}
		return []authz.Call{{Action: action, Type: kind, ID: p.Name, Arguments: p.Arguments}}, nil
	}
}

func resource(params jsontext.Value) ([]authz.Call, error) {
	var p struct {
		URI string `json:"uri"`
	}
	if err := jsonrpc.Members(params, &p, "uri"); err != nil {
		return nil, err
	}
	if p.URI == "" {
		return nil, errors.New("params.uri is missing")
	}
	return []authz.Call{read(p.URI)}, nil
}

func read(uri string) authz.Call {
	return authz.Call{Action: authz.ReadResource, Type: authz.Resource, ID: uri}
}

// completed is the prompt or the resource template whose argument is completed:
// who may not use it learns nothing of it.
func completed(params jsontext.Value) ([]authz.Call, error) {
	var p struct {
		Ref jsontext.Value `json:"ref"`
	}
	var ref struct {
		Type string `json:"type"`
		Name string `json:"name"`
		URI  string `json:"uri"`
	}
	if err := jsonrpc.Members(params, &p, "ref"); err != nil {
		return nil, err
	}
	if err := jsonrpc.Members(p.Ref, &ref, "type", "name", "uri"); err != nil {
		return nil, err
	}
	switch {
	case ref.Type == "ref/prompt" && ref.Name != "":
		return []authz.Call{{Action: authz.GetPrompt, Type: authz.Prompt, ID: ref.Name}}, nil
	case ref.Type == "ref/resource" && ref.URI != "":
		return []authz.Call{read(ref.URI)}, nil
	}
	return nil, errors.New("params.ref names neither a prompt nor a resource")
}

// listened are the resources whose changes a subscription tells
// (MCP specification 2026-07-28, subscriptions/listen).
func listened(params jsontext.Value) ([]authz.Call, error) {
	var p struct {
		Notifications jsontext.Value `json:"notifications"`
	}
	var n struct {
		URIs []string `json:"resourceSubscriptions"`
	}
	if err := jsonrpc.Members(params, &p, "notifications"); err != nil {
		return nil, err
	}
	if p.Notifications != nil {
		if err := jsonrpc.Members(p.Notifications, &n, "resourceSubscriptions"); err != nil {
			return nil, err
		}
	}
	var calls []authz.Call
	for _, uri := range n.URIs {
		calls = append(calls, read(uri))
	}
	return calls, nil
}

func listed(action, feature string) func(jsontext.Value) ([]authz.Call, error) {
	return func(jsontext.Value) ([]authz.Call, error) {
		return []authz.Call{{Action: action, Type: authz.FeatureType, ID: feature}}, nil
	}
}

// agree compares the headers by which intermediaries of revision 2026-07-28 know
// a call with the body, which is what the backend runs (MCP specification
// 2026-07-28, basic/transports, Mcp-Method and Mcp-Name). Headers that are absent
// say nothing.
func agree(header http.Header, m jsonrpc.Message, calls []authz.Call) error {
	method, err := single(header, "Mcp-Method")
	if err != nil {
		return err
	}
	if method != "" && method != m.Method {
		return fmt.Errorf("header Mcp-Method is %q, the body's method is %q", method, m.Method)
	}
	name, err := single(header, "Mcp-Name")
	if err != nil {
		return err
	}
	named := m.Method == "tools/call" || m.Method == "prompts/get" || m.Method == "resources/read"
	if name == "" || !named {
		return nil
	}
	if name, err = decoded(name); err != nil {
		return err
	}
	if name != calls[0].ID {
		return fmt.Errorf("header Mcp-Name is %q, the body names %q", name, calls[0].ID)
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

// decoded is a header's value without the wrapper of what is not plain ASCII.
func decoded(value string) (string, error) {
	inner, ok := strings.CutPrefix(value, "=?base64?")
	if !ok || !strings.HasSuffix(inner, "?=") {
		return value, nil
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(inner, "?="))
	if err != nil {
		return "", fmt.Errorf("header Mcp-Name: %w", err)
	}
	return string(text), nil
}
