package identity

import (
	"context"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/test/kit"
)

// request asks the API server for what a right is needed for.
type request func(context.Context, client.WithWatch) error

// lacking is who lacks the right.
func (x *trial) lacking(s *kit.Env) *rest.Config {
	s.Helper()
	if x.verb != "impersonate" {
		return plane.AsServiceAccount(s.Namespace, x.account)
	}
	config, err := plane.ConfigOf(s.Ctx, s.Namespace, x.account)
	s.Must(err, "taking a token")
	config.Impersonate.UserName = "system:serviceaccount:" + s.Namespace + ":" + x.names[0]
	return config
}

// having is who has the identity.
func (x *trial) having() *rest.Config {
	switch x.identity {
	case contract.IdentityRunner:
		return plane.AsServiceAccount(x.server.object.Namespace, x.server.object.Name+"-runner")
	case contract.IdentityRemoteRunner:
		return plane.AsServiceAccount(x.server.object.Namespace, x.server.object.Name+".remote-runner")
	}
	return installed(x.identity)
}

// request is one that needs the right, and what its refusal says. It prepares what the request needs to find.
func (x *trial) request(s *kit.Env) (request, string) {
	s.Helper()
	cannot := fmt.Sprintf("cannot %s resource %q", x.verb, x.resource)
	switch {
	case x.verb == "impersonate":
		return x.read(), "cannot impersonate"
	case x.resource == "mcpservers/finalizers":
		return x.apply(map[string]string{
			contract.IdentityMCPServer: "serviceaccounts", contract.IdentityRBAC: "roles",
			contract.IdentityRunner: "statefulsets",
		}[x.identity]), "finalizers"
	case x.resource == "mcpremoteproxies/finalizers":
		return x.apply(map[string]string{
			contract.IdentityMCPRemoteProxy: "serviceaccounts" + ofRemote, contract.IdentityRBAC: "roles" + ofRemote,
		}[x.identity]), "finalizers"
	case x.identity == contract.IdentityRBAC && strings.HasPrefix(x.resource, "mcpremoteproxies"):
		return x.apply("roles" + ofRemote), fmt.Sprintf("Verbs:[%q]", x.verb)
	case x.identity == contract.IdentityRBAC && x.group != "rbac.authorization.k8s.io":
		return x.apply("roles"), fmt.Sprintf("Verbs:[%q]", x.verb)
	case x.resource == "events" && x.group != "":
		return x.report(s), cannot
	case x.resource == "leases" && x.verb != "get":
		return x.lead(), cannot
	}
	switch x.verb {
	case "get", "list", "watch":
		return x.read(), cannot
	case "patch", "create":
		once := x.resource == "secrets" || x.resource == "controllerrevisions"
		if x.verb == "patch" && !once { // no patch of one that stands is allowed
			x.stand(s)
		}
		if x.resource == "rolebindings" {
			x.server.stands(s, x.intent("roles"))
		}
		return x.apply(x.resource), cannot
	case "delete":
		return x.remove(s, cannot)
	}
	return nil, ""
}

// intent is that of the identity about a resource.
func (x *trial) intent(resource string) *unstructured.Unstructured {
	if own, ok := x.server.intents["runner/"+resource]; ok &&
		(x.identity == contract.IdentityRunner || x.identity == contract.IdentityRemoteRunner) {
		return own
	}
	if own, ok := x.server.intents[resource+ofRemote]; ok && x.identity == contract.IdentityMCPRemoteProxy {
		return own
	}
	if resource == "statefulsets" && x.identity == contract.IdentityMCPServer {
		return x.server.intents["scale"]
	}
	return x.server.intents[resource]
}

// stand has the object there that is to be patched; a server is anyway.
func (x *trial) stand(s *kit.Env) {
	s.Helper()
	intent := x.intent(x.resource)
	if x.resource == "statefulsets" {
		intent = x.server.intents[x.resource] // also where only its scale is patched
	}
	if intent.GroupVersionKind().Group != contract.MCPServer.Group { // those are there
		x.server.stands(s, intent)
	}
}

// apply applies the intent under the manager whose it is.
func (x *trial) apply(resource string) request {
	intent := x.intent(resource)
	_, sub, _ := strings.Cut(resource, "/")
	for _, g := range freehold.Grants {
		// Claim and plan have grants of their own on the status, which are not tried.
		if g.Identity != x.identity || g.Object.Kind != intent.GetKind() || g.Object.Subresource != sub ||
			!g.Named(intent.GetName()) || sub == "status" && g.Versioned {
			continue
		}
		return func(ctx context.Context, c client.WithWatch) error {
			return x.server.apply(ctx, c, g.Manager, sub, intent)
		}
	}
	return nil
}

// remove deletes what the contract removes, and becomes the owner of what another hand made.
func (x *trial) remove(s *kit.Env, cannot string) (request, string) {
	s.Helper()
	whole := x.intent(x.resource)
	if x.resource == "statefulsets" {
		whole = x.server.intents[x.resource] // not its scale
	}
	if freehold.MayRemove(x.identity, whole.GroupVersionKind()) {
		x.server.stands(s, whole)
		return func(ctx context.Context, c client.WithWatch) error { return c.Delete(ctx, whole.DeepCopy()) }, cannot
	}
	if x.resource == "rolebindings" {
		x.server.stands(s, x.server.intents["roles"])
	}
	theirs := x.intent(x.resource).DeepCopy()
	theirs.SetOwnerReferences(nil)
	x.server.stands(s, theirs)
	return x.apply(x.resource), "cannot set an ownerRef on a resource you can't delete"
}

// read gets, lists or watches, by name where the right has names.
func (x *trial) read() request {
	kind, namespace := kindOf(x.group, x.resource), x.server.object.Namespace
	name := "any"
	options := []client.ListOption{client.InNamespace(namespace)}
	if len(x.names) > 0 {
		name = x.names[0]
		options = append(options, client.MatchingFields{metav1.ObjectNameField: name})
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return func(ctx context.Context, c client.WithWatch) error {
		switch x.verb {
		case "list":
			return c.List(ctx, list, options...)
		case "watch":
			watcher, err := c.Watch(ctx, list, options...)
			if err == nil {
				watcher.Stop()
			}
			return err
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		return client.IgnoreNotFound(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object))
	}
}

// kindOf is the kind behind a resource that is read.
func kindOf(group, resource string) schema.GroupVersionKind {
	for _, g := range freehold.Grants {
		if g.Object.Group == group && g.Object.Resource() == resource {
			return g.Object.GroupVersionKind
		}
	}
	return schema.GroupVersionKind{
		Group: group, Version: "v1",
		Kind: map[string]string{"pods": "Pod", "events": "Event", "leases": "Lease"}[resource],
	}
}

// lead creates or updates the leader's Lease, as client-go's election does.
func (x *trial) lead() request {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: contract.LeaseName, Namespace: x.server.object.Namespace},
	}
	return func(ctx context.Context, c client.WithWatch) error {
		if x.verb == "create" {
			return c.Create(ctx, lease)
		}
		return c.Update(ctx, lease)
	}
}

// report makes an event, or says that it came again.
func (x *trial) report(s *kit.Env) request {
	s.Helper()
	event := func() *eventsv1.Event {
		return &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: x.server.object.Name, Namespace: s.Namespace},
			Regarding:  corev1.ObjectReference{Kind: "MCPServer", Namespace: s.Namespace, Name: x.server.object.Name},
			EventTime:  metav1.NowMicro(), ReportingController: "freehold-mcpserver", ReportingInstance: "x",
			Action: "Try", Reason: "Trial", Type: "Normal",
		}
	}
	if x.verb == "create" {
		return func(ctx context.Context, c client.WithWatch) error { return c.Create(ctx, event()) }
	}
	s.Must(s.Client.Create(s.Ctx, event()), "making an event")
	again := fmt.Sprintf(`{"series":{"count":2,"lastObservedTime":%q}}`,
		metav1.NowMicro().UTC().Format(metav1.RFC3339Micro))
	return func(ctx context.Context, c client.WithWatch) error {
		return c.Patch(ctx, event(), client.RawPatch(types.StrategicMergePatchType, []byte(again)))
	}
}
