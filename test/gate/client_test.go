package gate

import (
	"context"
	"encoding/json"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// request is a write as it goes over the wire.
type request struct {
	*unstructured.Unstructured
	subresource string
}

// errLost is what a process sees of a request whose answer did not arrive.
var errLost = errors.New("the connection broke before the answer")

// connection is one process's way to the API server.
type connection struct {
	client.Client
	process *process
}

// Get reads from the API server, in the process's turn.
func (c *connection) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.process.turn(ctx); err != nil {
		return err
	}
	if err := c.Client.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	c.process.scenario.plant.disguise(c.process, obj)
	return nil
}

// Apply writes to an object.
func (c *connection) Apply(ctx context.Context, ac runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return c.send(ctx, ac, "", func(changed runtime.ApplyConfiguration) error {
		return c.Client.Apply(ctx, changed, opts...)
	})
}

// SubResource writes to an object's subresource.
func (c *connection) SubResource(name string) client.SubResourceClient {
	return &subresource{SubResourceClient: c.Client.SubResource(name), connection: c, name: name}
}

type subresource struct {
	client.SubResourceClient
	connection *connection
	name       string
}

// Apply writes to the subresource.
func (s *subresource) Apply(ctx context.Context, ac runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	return s.connection.send(ctx, ac, s.name, func(changed runtime.ApplyConfiguration) error {
		return s.SubResourceClient.Apply(ctx, changed, opts...)
	})
}

// send sends a write in the process's turn, shows it to the checker, and lets its
// answer get lost now and then.
func (c *connection) send(ctx context.Context, ac runtime.ApplyConfiguration, subresource string, do func(runtime.ApplyConfiguration) error) error {
	scenario := c.process.scenario
	if *ac.(body).GetKind() == "StatefulSet" {
		scenario.hold(c.process)
	}
	if err := c.process.turn(ctx); err != nil {
		return err
	}
	data, err := json.Marshal(ac)
	if err != nil {
		return err
	}
	r := request{Unstructured: &unstructured.Unstructured{}, subresource: subresource}
	if err := json.Unmarshal(data, &r.Object); err != nil {
		return err
	}
	scenario.plant.change(r)
	scenario.checker.sent(c.process, r)
	err = do(&changed{ac.(body), r})
	scenario.note("%s: %s %s/%s at %q: %v", c.process.name, r.GetKind(), r.GetName(), subresource, r.GetResourceVersion(), short(err))
	scenario.look(r.GetKind(), r.GetName())
	if err == nil && scenario.disorder && scenario.random.IntN(20) == 0 {
		scenario.note("%s: the answer is lost", c.process.name)
		return errLost
	}
	return err
}

// body is what client.Client needs of an apply configuration.
type body interface {
	runtime.ApplyConfiguration
	json.Unmarshaler
	GetName() *string
	GetNamespace() *string
	GetKind() *string
	GetAPIVersion() *string
}

// changed is an apply configuration with another content.
type changed struct {
	body
	content request
}

// MarshalJSON is what is sent.
func (c *changed) MarshalJSON() ([]byte, error) { return json.Marshal(c.content.Object) }

// short is the begin of an error, without what is of each run: names are of several lengths.
func short(err error) string {
	if err == nil {
		return "ok"
	}
	text := ofEachRun.ReplaceAllString(err.Error(), "…")
	return text[:min(len(text), 120)]
}

// lagging is a cache that shows what it was last told.
type lagging struct {
	process *process
	shown   map[string]client.Object // nil: known not to exist
}

// Get reads from the cache.
func (l *lagging) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	kind := kindOf(obj)
	shown := l.shown[kind+"/"+key.Name]
	if shown == nil {
		return notFound(kind, key.Name)
	}
	l.process.scenario.plant.disguise(l.process, shown)
	return convert(shown, obj)
}

// List is not what runners do.
func (l *lagging) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("a runner may not list")
}

// hears brings the cache up to date with what stands, each object with a
// chance of one in n. It reports whether the process has news to act on.
func (l *lagging) hears(n int) bool {
	scenario := l.process.scenario
	for _, key := range scenario.keys() {
		stands := scenario.stands[key]
		if version(l.shown[key]) == version(stands) || scenario.random.IntN(n) != 0 {
			continue
		}
		l.process.woken = true
		l.shown[key] = nil
		if stands != nil {
			l.shown[key] = stands.DeepCopyObject().(client.Object)
		}
	}
	return l.process.woken
}

func version(o client.Object) string {
	if o == nil {
		return ""
	}
	return o.GetResourceVersion()
}
