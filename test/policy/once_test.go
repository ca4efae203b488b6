package policy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/test/kit"
)

// The identities that make the Secrets of session ids write no Secret that exists, not
// even nothing of it, for the answer would hold it; nor that of the other kind.
func TestASecretIsWrittenOnce(t *testing.T) {
	for _, tc := range []struct {
		manager     ownership.Manager
		own, theirs string
	}{
		{contract.MCPServerChildren, "echo-session", "echo.remote-session"},
		{contract.MCPRemoteProxyChildren, "echo.remote-session", "echo-session"},
	} {
		t.Run(tc.own, func(t *testing.T) {
			writtenOnce(t, string(tc.manager), freehold.Identity(tc.manager), tc.own, tc.theirs)
		})
	}
}

// The history of contents is what later pods are made of: its writer changes none of it.
func TestStoredContentIsWrittenOnce(t *testing.T) {
	env := kit.NewEnv(t, plane)
	c := as(t, kit.SystemNamespace, contract.IdentityMCPServer)
	children := string(contract.MCPServerChildren)
	store := func(name, content string) error {
		o := object(numbered + "revision: 1\ndata: {" + content + "}")
		o.SetGroupVersionKind(contract.ControllerRevision.GroupVersionKind)
		o.SetNamespace(env.Namespace)
		o.SetName(name)
		return applied(t.Context(), c, children, "", o, true)
	}
	env.Must(store("echo-content-abc", "a: b"), "storing content")
	for name, err := range map[string]error{
		"echo-content-abc": store("echo-content-abc", "a: b"), "echo-backend-abc": store("echo-backend-abc", "a: b"),
		"echo-content-a-b": store("echo-content-a-b", "a: b"),
	} {
		refused(t, err, "field manager "+children+" has no grant on controllerrevisions "+name)
	}
}

func writtenOnce(t *testing.T, children, identity, own, others string) {
	t.Helper()
	env := kit.NewEnv(t, plane)
	c := as(t, kit.SystemNamespace, identity)
	kind, _, _ := strings.Cut(children, ".")
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
	refused(t, made(others), "field manager "+children+" has no grant on secrets "+others)
	env.Must(made(own), "making the Secret")
	refused(t, made(own), "field manager "+children+" has no grant on secrets "+own)
	refused(t, made("echo-token"), "has no grant on secrets echo-token")
	for _, s := range []*corev1.Secret{
		secret("theirs", ""), secret("theirs-session", ""), secret("labelled", ours),
		secret("labelled-session", ours),
	} {
		for _, patch := range []string{
			`{}`, `{"data":{"token":"eA=="}}`,
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`,
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"freehold"}}}`,
		} {
			for _, by := range []string{"", children} {
				merge := client.RawPatch(types.MergePatchType, []byte(patch))
				refused(t, c.Patch(t.Context(), s.DeepCopy(), merge, client.FieldOwner(by)), kind)
				refused(t, c.Patch(t.Context(), s.DeepCopy(), merge, client.FieldOwner(by), client.DryRunAll), kind)
			}
		}
		refused(t, made(s.Name))
	}
	// People rotate the keys, and nobody is in their way.
	rotated := &corev1.Secret{}
	rotated.SetName(own)
	env.Read(rotated)
	env.Must(admin.Patch(t.Context(), rotated,
		client.RawPatch(types.MergePatchType, []byte(`{"data":{"previous":"a2V5","current":"bmV3"}}`))), "rotating")
}
