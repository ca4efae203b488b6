package authz

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/go-json-experiment/json/jsontext"
)

// Anonymous is the subject of every caller of a server without a login.
const Anonymous = "anonymous"

// client is the type of every principal, and groups are those of its groups: ours,
// and that of policies which were written for ToolHive.
const client = "Client"

var groups = []types.EntityType{"Group", "THVGroup"}

// Caller is who calls.
type Caller struct {
	// Subject is the name under which policies know the caller.
	Subject string
	// Issuer is who vouches for the caller; empty for nobody.
	Issuer string
	// Claims of the verified token, a JSON object; nil for none.
	Claims jsontext.Value
	// Groups that the caller is in.
	Groups []string

	ready *ready
}

type ready struct {
	attributes types.RecordMap
	// context are the attributes, as the context of a call without arguments.
	context types.Record
	groups  []string
	// err is why there is no decision about the caller.
	err error
	// entity is the principal of the policies that were asked last.
	entity atomic.Pointer[principal]
}

type principal struct {
	of     *Policies
	entity types.Entity
}

// Ready is the caller of many calls: what decisions need of it is read once.
func (c Caller) Ready() Caller {
	c.ready = &ready{attributes: types.RecordMap{}, groups: c.Groups}
	c.ready.err = (&values{trusted: true}).attributes(c.ready.attributes, "claim_", c.Claims,
		func(string) bool { return true })
	c.ready.context = types.NewRecord(c.ready.attributes)
	return c
}

// Shown is a name of the caller's choice, as long as a log may hold it.
func Shown(name string) string {
	const most = 256
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}

// request is a call in Cedar's terms. What callers choose is behind the
// prefixes claim_ and arg_, so it replaces no attribute of an entity.
func (p *Policies) request(caller Caller, call Call) (cedar.Request, types.EntityGetter, error) {
	if caller.ready == nil {
		caller = caller.Ready()
	}
	arguments := types.RecordMap{}
	if caller.ready.err != nil {
		return cedar.Request{}, nil, caller.ready.err
	}
	request := scope(caller, call)
	err := new(values).attributes(arguments, argument, call.Arguments,
		func(name string) bool { return p.reads(name, request) })
	if err != nil {
		return cedar.Request{}, nil, err
	}
	request.Context = caller.ready.context
	if p.contextual && len(arguments) > 0 {
		context := maps.Clone(arguments)
		maps.Copy(context, caller.ready.attributes)
		request.Context = types.NewRecord(context)
	}
	about := &world{Policies: p, caller: caller.ready, request: request}
	if len(arguments) > 0 {
		maps.Copy(arguments, own(call.Action, call.Type, call.ID))
		about.arguments = arguments
	}
	return request, about, nil
}

// own are the attributes that each call gives its resource.
func own(action, kind, id string) types.RecordMap {
	all := types.RecordMap{
		"name": types.String(id), "operation": types.String(operation[action]), "feature": types.String(feature[kind]),
	}
	if kind == Resource {
		all["uri"] = types.String(id)
	}
	return all
}

// scope is what the scope of a policy is compared with.
func scope(caller Caller, call Call) cedar.Request {
	return cedar.Request{
		Principal: types.NewEntityUID(client, types.String(caller.Subject)),
		Action:    types.NewEntityUID("Action", types.String(call.Action)),
		Resource:  types.NewEntityUID(types.EntityType(call.Type), types.String(call.ID)),
	}
}

var (
	operation = map[string]string{
		CallTool: "call", GetPrompt: "get", ReadResource: "read", ListTools: "list", ListPrompts: "list",
		ListResources: "list",
	}
	feature = map[string]string{Tool: "tool", Prompt: "prompt", Resource: "resource"}
)

// world is the configured entities, and over them the two that a call is about, which
// are made when a policy looks at them.
type world struct {
	*Policies
	caller    *ready
	request   cedar.Request
	arguments types.RecordMap // nil where no policy reads any
	resource  *types.Entity
}

// Get implements types.EntityGetter.
func (w *world) Get(uid types.EntityUID) (types.Entity, bool) {
	switch uid {
	case w.request.Principal:
		last := w.caller.entity.Load()
		if last == nil || last.of != w.Policies {
			var parents []types.EntityUID
			for _, name := range w.caller.groups {
				for _, kind := range w.groups {
					parents = append(parents, types.NewEntityUID(kind, types.String(name)))
				}
			}
			last = &principal{w.Policies, w.with(uid, maps.Clone(w.caller.attributes), parents)}
			w.caller.entity.Store(last)
		}
		return last.entity, true
	case w.request.Resource:
		switch {
		case w.resource != nil:
		case w.arguments == nil:
			w.resource = new(w.item(w.request))
		default:
			w.resource = new(w.with(uid, w.arguments, nil))
		}
		return *w.resource, true
	}
	return w.entities.Get(uid)
}

// with is the configured entity, with attributes and parents that a call adds.
func (p *Policies) with(uid types.EntityUID, attributes types.RecordMap, parents []types.EntityUID) types.Entity {
	entity := p.entities[uid]
	entity.UID = uid
	for name, v := range entity.Attributes.All() {
		if _, ours := attributes[name]; !ours {
			attributes[name] = v
		}
	}
	entity.Attributes = types.NewRecord(attributes)
	if len(parents) > 0 {
		entity.Parents = types.NewEntityUIDSet(slices.AppendSeq(parents, entity.Parents.All())...)
	}
	return entity
}
