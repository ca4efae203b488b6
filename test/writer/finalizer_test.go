package writer

import (
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
)

// exported is a server as an export of another one has it, with what it held.
const exported = `{"apiVersion":"freehold.dev/v1alpha1","kind":"MCPServer","metadata":{"name":"echo","labels":{"team":"blue"},` +
	`"finalizers":["freehold.dev/mcpserver","example.com/theirs"]},"spec":{"image":"echo:1"}}`

// A tool that makes an object of an export states our finalizer, and would never take it away:
// it goes all the same, and nothing else of theirs does.
func TestAFinalizerThatOthersStateTooGoes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		made func(d *fixture)
		from []string
	}{
		"kubectl create": {func(d *fixture) {
			d.Must(d.Client.Create(d.Ctx, d.Intent(exported), client.FieldOwner("kubectl-create")), "creating")
		}, []string{"kubectl-create"}},
		"an applier": {func(d *fixture) { d.Apply("git", exported) }, []string{"git"}},
		"two": {func(d *fixture) {
			d.Must(d.Client.Create(d.Ctx, d.Intent(exported), client.FieldOwner("kubectl-create")), "creating")
			d.Force("git", exported)
		}, []string{"git", "kubectl-create"}},
		"nobody that is known": {func(d *fixture) {
			d.Apply("git", exported)
			d.Patch(read(d, &v1alpha1.MCPServer{}, "echo"), "editor", `{"metadata":{"managedFields":[{}]}}`)
		}, []string{ownership.BeforeFirstApply}},
		"nobody else": {func(d *fixture) { d.server("echo", "") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := freehold(t)
			tc.made(d)
			live := read(d, &v1alpha1.MCPServer{}, "echo")
			if name != "nobody that is known" {
				d.put(apply.Configured, contract.MCPServerFinalizer, live, finalizer(live))
				live = read(d, live, "echo")
			}
			from, err := d.applier.As(contract.MCPServerFinalizer).RemoveFinalizer(d.Ctx, live, contract.Finalizer)
			d.Must(err, "removing")
			if len(live.ManagedFields) == 0 {
				live = read(d, live, "echo")
				from, err = d.applier.As(contract.MCPServerFinalizer).RemoveFinalizer(d.Ctx, live, contract.Finalizer)
				d.Must(err, "removing")
			}
			if !slices.Equal(from, tc.from) {
				t.Errorf("it was taken from %v, want %v", from, tc.from)
			}
			was := live.DeepCopy()
			live = read(d, live, "echo")
			want := slices.DeleteFunc(slices.Clone(was.Finalizers), func(f string) bool { return f == contract.Finalizer })
			if !slices.Equal(live.Finalizers, want) || live.Labels["team"] != was.Labels["team"] ||
				live.Spec.Image != was.Spec.Image {
				t.Errorf("finalizers %v, labels %v, image %s", live.Finalizers, live.Labels, live.Spec.Image)
			}
			d.OwnsNothing(live, string(contract.MCPServerFinalizer))
		})
	}
}
