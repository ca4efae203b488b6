package main

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Two of the writers, and what they write.
const (
	labeller  = "labeller"
	auditor   = "auditor"
	label     = "example.com/team"
	note      = "example.com/note"
	condition = "Audited"
)

// writer is somebody else who says one thing about one object of a server,
// differently in each turn. Nobody but it may change what it says.
type writer struct {
	name   string
	write  sending
	object ownership.Object
	of     func(server string) string
	says   func(turn int) map[string]any
}

// sending is how somebody sends what it says of an object, of which kind, namespace and name are set.
type sending struct {
	name string
	send func(ctx context.Context, c client.Client, object *unstructured.Unstructured, manager client.FieldOwner,
		says map[string]any) error
	// locks says that it sends the resourceVersion that it read, and is answered 409 if anybody has written since.
	locks bool
}

var (
	applied       = sending{name: "apply", send: sendApply}
	forced        = sending{name: "forced apply", send: sendForced}
	appliedStatus = sending{name: "apply of status", send: sendStatus}
	merged        = sending{name: "merge patch", send: sendPatch}
	updated       = sending{name: "get and update", send: sendUpdate, locks: true}
	scaled        = sending{name: "get and update of scale", send: sendScale, locks: true}
)

// onServers are the writers of servers, onChildren those on what is made of them.
func onServers() []writer {
	itself := func(server string) string { return server }
	on := func(name string, write sending, says func(int) map[string]any) writer {
		return writer{name, write, contract.MCPServer, itself, says}
	}
	return []writer{
		on(labeller, applied, func(turn int) map[string]any {
			return map[string]any{"metadata": map[string]any{
				"labels": map[string]any{label: "blue"}, "annotations": map[string]any{note: fmt.Sprint(turn)},
			}}
		}),
		// What it renders is content, so that the subject has to act.
		on(user, forced, func(turn int) map[string]any {
			return map[string]any{"spec": map[string]any{
				"image": image(turn), "rollout": map[string]any{"strategy": "Replace"},
			}}
		}),
		on("kubectl-edit", updated, under("contact", "metadata", "annotations")),
		on("kubectl-patch", merged, under("ticket", "metadata", "annotations")),
		on("horizontal-pod-autoscaler", scaled, func(turn int) map[string]any {
			return map[string]any{"spec": map[string]any{"replicas": int64(1 + turn%2)}}
		}),
		on(auditor, appliedStatus, func(turn int) map[string]any {
			return map[string]any{"status": map[string]any{audits: int64(turn), "conditions": []any{map[string]any{
				"type": condition, "status": "True", "reason": "Looked", "message": fmt.Sprint(turn),
				"lastTransitionTime": "2026-01-01T00:00:00Z",
			}}}}
		}),
		on("archiver", applied, func(turn int) map[string]any {
			if turn%2 == 1 {
				return map[string]any{} // it lets go
			}
			return map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/archive"}}}
		}),
	}
}

func onChildren() []writer {
	return []writer{
		{"mesh", applied, contract.Deployment, workload.ProxyName, func(turn int) map[string]any {
			return map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"example.com/mesh": "on"}},
				"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{sidecar(turn)}}}},
			}
		}},
		{
			"kubectl-rollout-restart", merged, contract.Deployment, workload.ProxyName,
			under("restarted", "spec", "template", "metadata", "annotations"),
		},
		{"dns", merged, contract.Service, workload.ProxyName, under("dns", "metadata", "annotations")},
		{"finance", updated, contract.Service, workload.ProxyName, under("cost-center", "metadata", "labels")},
		{"backup", merged, contract.StatefulSet, workload.BackendName, under("backup", "metadata", "annotations")},
	}
}

// under says the turn, below a path.
func under(key string, path ...string) func(turn int) map[string]any {
	return func(turn int) map[string]any {
		says := map[string]any{"example.com/" + key: fmt.Sprint(turn)}
		for i := len(path) - 1; i >= 0; i-- {
			says = map[string]any{path[i]: says}
		}
		return says
	}
}

// sidecar is a container that a namespace of restricted pods takes.
func sidecar(turn int) map[string]any {
	return map[string]any{
		"name": "mesh", "image": fmt.Sprintf("registry.example.com/mesh:%d", turn),
		"securityContext": map[string]any{
			"allowPrivilegeEscalation": false,
			"capabilities":             map[string]any{"drop": []any{"ALL"}},
		},
	}
}

func sendApply(
	ctx context.Context, c client.Client, object *unstructured.Unstructured, manager client.FieldOwner,
	says map[string]any,
) error {
	return c.Apply(ctx, stated(object, says), manager)
}

func sendForced(
	ctx context.Context, c client.Client, object *unstructured.Unstructured, manager client.FieldOwner,
	says map[string]any,
) error {
	return c.Apply(ctx, stated(object, says), manager, client.ForceOwnership)
}

func sendStatus(
	ctx context.Context, c client.Client, object *unstructured.Unstructured, manager client.FieldOwner,
	says map[string]any,
) error {
	return c.Status().Apply(ctx, stated(object, says), manager)
}

func stated(object *unstructured.Unstructured, says map[string]any) runtime.ApplyConfiguration {
	lay(says, object.Object)
	return client.ApplyConfigurationFromUnstructured(object)
}

// sendPatch is kubectl patch: nothing is read, and nothing but what is said is sent.
func sendPatch(
	ctx context.Context, c client.Client, object *unstructured.Unstructured, manager client.FieldOwner,
	says map[string]any,
) error {
	patch, err := json.Marshal(says)
	if err != nil {
		return err
	}
	return c.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), manager)
}

// sendUpdate is kubectl edit: a GET, and a PUT of everything.
func sendUpdate(
	ctx context.Context, c client.Client, object *unstructured.Unstructured, manager client.FieldOwner,
	says map[string]any,
) error {
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	lay(says, object.Object)
	return c.Update(ctx, object, manager)
}

// sendScale is sendUpdate on the subresource that autoscalers write.
func sendScale(
	ctx context.Context, c client.Client, object *unstructured.Unstructured, manager client.FieldOwner,
	says map[string]any,
) error {
	scale := &unstructured.Unstructured{}
	if err := c.SubResource("scale").Get(ctx, object, scale); err != nil {
		return err
	}
	lay(says, scale.Object)
	return c.SubResource("scale").Update(ctx, object, client.WithSubResourceBody(scale), manager)
}

// lay puts what is said into an object.
func lay(says, into map[string]any) {
	for key, v := range says {
		deeper, ok := v.(map[string]any)
		if !ok {
			into[key] = v
			continue
		}
		below, ok := into[key].(map[string]any)
		if !ok {
			below = map[string]any{}
			into[key] = below
		}
		lay(deeper, below)
	}
}
