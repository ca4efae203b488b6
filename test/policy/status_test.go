package policy

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/test/kit"
)

// withStatus are objects of kinds whose status is Kubernetes' own, by what %s
// says in their metadata. A write to the status of each takes annotations.
var withStatus = []string{
	"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: echo-backend%s}, spec: {replicas: 0, " + pods + "}}",
	"{apiVersion: apps/v1, kind: Deployment, metadata: {name: echo-proxy%s}, spec: {replicas: 0, " + pods + "}}",
	"{apiVersion: v1, kind: Service, metadata: {name: echo-backend%s}, spec: {ports: [{port: 80}]}}",
}

const labelOnly = ", labels: {app.kubernetes.io/managed-by: freehold}"

func toStatus(ctx context.Context, c client.Client, o client.Object, manager, change string) error {
	target := o.DeepCopyObject().(client.Object)
	return c.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, []byte(change)), client.FieldOwner(manager))
}

// TestNobodyOfOursWritesTheStatusOfOthers holds that our managers and
// identities have no business in the status of a Deployment, StatefulSet or
// Service of ours, and that everybody else has as before.
func TestNobodyOfOursWritesTheStatusOfOthers(t *testing.T) {
	for _, text := range withStatus {
		s := kit.NewStage(t, plane)
		o := s.Intent(fmt.Sprintf(text, labelOnly))
		s.Must(admin.Create(s.Ctx, o), "creating")
		runner := as(t, s.Namespace, "echo-runner")
		for _, manager := range []ownership.Manager{ownership.RunnerBackend, ownership.MCPServerChildren, ownership.OperatorLease} {
			refused(t, toStatus(s.Ctx, admin, o, string(manager), noteB), "field manager "+string(manager)+" is Freehold's", "is not that")
			apply := s.Intent(fmt.Sprintf(text, labelOnly+", annotations: {example.com/note: b}"))
			refused(t, applied(s.Ctx, admin, string(manager), "status", apply, true), "is not that")
		}
		refused(t, toStatus(s.Ctx, controller(t), o, string(ownership.MCPServerChildren), noteB), "mcpserver.freehold.dev/children has no grant on ", "s/status echo-")
		refused(t, toStatus(s.Ctx, controller(t), o, "", noteB), "belongs to Freehold", "names none")
		refused(t, toStatus(s.Ctx, runner, o, string(ownership.MCPServerChildren), noteB), "belongs to Freehold")
		if o.GetKind() == "Deployment" { // the proxy's, of which the runner is none
			refused(t, toStatus(s.Ctx, runner, o, "", noteB), "belongs to Freehold")
		} else {
			refused(t, toStatus(s.Ctx, runner, o, string(ownership.RunnerBackend), noteB), "runner.freehold.dev/backend has no grant on ")
		}
		for who, c := range map[string]client.Client{"an administrator": admin, "another runner": as(t, s.Namespace, "gitlab-runner")} {
			s.Must(toStatus(s.Ctx, c, o, "", noteB), who+" writes")
		}
	}
}

// TestTheLabelDoesNotHideAStatus holds that taking our label away, or putting
// it on, in the same write leads past nothing.
func TestTheLabelDoesNotHideAStatus(t *testing.T) {
	for _, text := range withStatus {
		s := kit.NewStage(t, plane)
		o := s.Intent(fmt.Sprintf(text, labelOnly))
		s.Must(admin.Create(s.Ctx, o), "creating")
		refused(t, toStatus(s.Ctx, admin, o, string(ownership.RunnerBackend), `{"metadata":{"labels":null,"annotations":{"example.com/note":"b"}}}`), "is not that")
		if o.GetKind() == "Deployment" {
			continue // its status takes no labels
		}
		s.Patch(o, "kubectl", `{"metadata":{"labels":null}}`)
		refused(t, toStatus(s.Ctx, admin, o, string(ownership.RunnerBackend), `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"freehold"}}}`), "is not that")
	}
}
