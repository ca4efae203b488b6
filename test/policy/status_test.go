package policy

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/test/kit"
)

// withStatus are objects of kinds whose status is Kubernetes' own, by what %s
// says in their metadata. A write to the status of each takes annotations.
var withStatus = []string{
	"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: echo-backend%s}, spec: {replicas: 0, " + pods + "}}",
	"{apiVersion: apps/v1, kind: Deployment, metadata: {name: echo-proxy%s}, spec: {replicas: 0, " + pods + "}}",
	"{apiVersion: v1, kind: Service, metadata: {name: echo-backend%s}, spec: {ports: [{port: 80}]}}",
}

const (
	oursAndNumbered = `, labels: {app.kubernetes.io/managed-by: freehold}, annotations: {freehold.dev/workload-generation: "1"}`
	withANote       = `, labels: {app.kubernetes.io/managed-by: freehold}, annotations: {freehold.dev/workload-generation: "1", example.com/note: b}`
)

func toStatus(ctx context.Context, c client.Client, o client.Object, manager, change string) error {
	target := o.DeepCopyObject().(client.Object)
	return c.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, []byte(change)), client.FieldOwner(manager))
}

// TestNobodyOfOursWritesTheStatusOfOthers holds that our managers have no
// business in the status of a Deployment, StatefulSet or Service of ours, and
// that everybody else has as before.
func TestNobodyOfOursWritesTheStatusOfOthers(t *testing.T) {
	for _, text := range withStatus {
		s := kit.NewEnv(t, plane)
		o := s.Intent(fmt.Sprintf(text, oursAndNumbered))
		s.Must(admin.Create(s.Ctx, o), "creating")
		for _, g := range freehold.Grants {
			m := string(g.Manager)
			says := []string{"field manager " + m + " is Freehold's", "writes no status of a " + o.GetKind(), "--field-manager=my-team"}
			refused(t, toStatus(s.Ctx, admin, o, m, noteB), says...)
			refused(t, toStatus(s.Ctx, controller(t), o, m, noteB), says...)
			refused(t, applied(s.Ctx, admin, m, "status", s.Intent(fmt.Sprintf(text, withANote)), true), says...)
		}
		unchanged(t, o)
		for who, c := range map[string]client.Client{"an administrator": admin, "another runner": as(t, s.Namespace, "gitlab-runner")} {
			s.Must(toStatus(s.Ctx, c, o, "", noteB), who+" writes")
			s.Must(toStatus(s.Ctx, c, o, "notfreehold.dev/x", noteB), who+" writes under a name that is like ours")
		}
	}
}
