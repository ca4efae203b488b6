package policy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/test/kit"
)

// The identity that makes the Secret of session ids writes no Secret that exists, not
// even nothing of it, for the answer would hold it.
func TestASecretIsWrittenOnce(t *testing.T) {
	env := kit.NewEnv(t, plane)
	c, children := controller(t), string(contract.MCPServerChildren)
	secret := func(name, more string) *corev1.Secret {
		env.Helper()
		s := &corev1.Secret{}
		s.SetName(name)
		env.Apply("somebody", "{apiVersion: v1, kind: Secret, metadata: {name: "+name+more+"}, stringData: {token: t}}")
		env.Read(s)
		return s
	}
	const ours = ", labels: {app.kubernetes.io/managed-by: freehold}"
	made := func(name string) error {
		o := object(labelled + "data: {current: a2V5}")
		o.SetGroupVersionKind(contract.Secret.GroupVersionKind)
		o.SetNamespace(env.Namespace)
		o.SetName(name)
		return applied(t.Context(), c, children, "", o, false)
	}
	env.Must(made("echo-session"), "making the Secret")
	refused(t, made("echo-session"), "field manager "+children+" has no grant on secrets echo-session")
	refused(t, made("echo-token"), "has no grant on secrets echo-token")
	for _, s := range []*corev1.Secret{secret("theirs", ""), secret("theirs-session", ""), secret("labelled", ours), secret("labelled-session", ours)} {
		for _, patch := range []string{`{}`, `{"data":{"token":"eA=="}}`, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"freehold"}}}`} {
			for _, by := range []string{"", children} {
				merge := client.RawPatch(types.MergePatchType, []byte(patch))
				refused(t, c.Patch(t.Context(), s.DeepCopy(), merge, client.FieldOwner(by)), "mcpserver")
				refused(t, c.Patch(t.Context(), s.DeepCopy(), merge, client.FieldOwner(by), client.DryRunAll), "mcpserver")
			}
		}
		refused(t, made(s.Name))
	}
	// People rotate the keys, and nobody is in their way.
	rotated := &corev1.Secret{}
	rotated.SetName("echo-session")
	env.Read(rotated)
	env.Must(admin.Patch(t.Context(), rotated, client.RawPatch(types.MergePatchType, []byte(`{"data":{"previous":"a2V5","current":"bmV3"}}`))), "rotating")
}
