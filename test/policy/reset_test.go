package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/test/kit"
)

// alone are rows of objects in which nobody else has an entry, and which stay right without all that the manager
// stated: there a release leaves no managedFields, as a reset does.
func alone(t *testing.T) []right {
	t.Helper()
	only := []ownership.Object{contract.ServiceAccount, contract.Role, contract.ConfigMap}
	rows := slices.DeleteFunc(slices.Clone(rights), func(r right) bool {
		return strings.Contains(r.name, "remote") || !slices.Contains(only, r.object) && r.name != "echo-backend-headless"
	})
	if len(rows) != len(only)+1 {
		t.Fatalf("there are %d rows", len(rows))
	}
	for i := range rows { // nobody gives up a number
		rows[i].fields = strings.Replace(rows[i].fields, `annotations: {freehold.dev/workload-generation: "1"}, `, "", 1)
	}
	return rows
}

// in is the row in a namespace, and the client of its identity.
func (r right) in(t *testing.T, env *kit.Env) (placed, client.Client) {
	t.Helper()
	s := placed{right: r, namespace: env.Namespace, uid: makeOwners(env)[contract.MCPServer.Kind]}
	return s, s.writer(t)
}

// TestReleasesOfTheOnlyEntryPass holds that giving everything up is not taken
// for a write that hides, whoever asks for it.
func TestReleasesOfTheOnlyEntryPass(t *testing.T) {
	for _, r := range alone(t) {
		t.Run(fmt.Sprintf("%s on %s", r.manager, r.object), func(t *testing.T) {
			for _, who := range []string{"ours", "somebody"} {
				env := kit.NewEnv(t, plane)
				s, ours := r.in(t, env)
				c := admin
				if who == "ours" {
					c = ours
				}
				env.Must(s.apply(t.Context(), ours, string(r.manager), true), "stating")
				if got := s.live(t).GetManagedFields(); len(got) != 1 {
					t.Fatalf("there are other entries: %v", got)
				}
				nothing := s.intent()
				nothing.Object = map[string]any{
					"apiVersion": nothing.GetAPIVersion(), "kind": nothing.GetKind(),
					"metadata": map[string]any{"name": s.name, "namespace": s.namespace},
				}
				env.Must(applied(t.Context(), c, string(r.manager), "", nothing, true), who+" releases")
				if got := s.live(t).GetManagedFields(); len(got) > 0 {
					t.Errorf("after %s released: %v", who, got)
				}
			}
		})
	}
}

// TestNothingIsAddedBehindAReset holds each level at which a write could hide
// where ours is the only entry, so that a reset looks like a release.
func TestNothingIsAddedBehindAReset(t *testing.T) {
	env := kit.NewEnv(t, plane)
	changes := map[ownership.Object][]string{
		contract.ConfigMap: {
			"data: {a: c}", "data: {b: c}", "binaryData: {b: AAAA}", "immutable: true",
			"metadata: {labels: {example.com/team: a}}", "metadata: {labels: {freehold.dev/server: other}}",
			"metadata: {annotations: {example.com/note: a}}", `metadata: {annotations: {freehold.dev/workload-generation: "2"}}`,
			"metadata: {finalizers: [example.com/hold]}",
			"metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u}]}",
			"{data: null, metadata: {labels: {example.com/team: a}}}",
		},
		contract.Role: {`rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]`},
	}
	for _, r := range alone(t) {
		s, c := r.in(t, env)
		m := string(r.manager)
		env.Must(s.apply(t.Context(), c, m, true), "stating")
		for _, change := range changes[r.object] {
			s.more = change
			for what, forgotten := range map[string]string{"a reset": reset, "an emptied list": emptied} {
				t.Run(fmt.Sprintf("%s/%s with %s", r.object, change, what), func(t *testing.T) {
					refused(t, s.mergePatch(t.Context(), admin, m, forgotten), "is not that")
					refused(t, s.mergePatch(t.Context(), c, m, forgotten), "has to be seen in metadata.managedFields",
						"leave metadata.managedFields out")
				})
			}
		}
	}
}

// TestObjectsWithoutManagedFields holds that where somebody has removed all managedFields, updates under our managers
// are refused, because the API server enters none of them, and that ours write on.
func TestObjectsWithoutManagedFields(t *testing.T) {
	for _, r := range append(alone(t), rights[0]) {
		t.Run(fmt.Sprintf("%s on %s", r.manager, r.object), func(t *testing.T) {
			env := kit.NewEnv(t, plane)
			if r.object == contract.MCPServer {
				env.Apply("kubectl", kit.Server("echo", "i", ""))
			}
			s, c := r.in(t, env)
			m := string(r.manager)
			forget := func() {
				t.Helper()
				env.Patch(s.intent(), "kubectl", `{"metadata":{"managedFields":[{}]}}`)
				if got := s.live(t).GetManagedFields(); len(got) > 0 {
					t.Fatalf("there still are %v", got)
				}
			}
			env.Must(s.apply(t.Context(), c, m, true), "stating")
			forget()
			for _, more := range []string{"{}", reset, emptied} {
				refused(t, s.mergePatch(t.Context(), admin, m, more), "is not that")
				refused(t, s.mergePatch(t.Context(), c, m, more), "has to be seen in metadata.managedFields",
					"an object that has none")
			}
			entry := fmt.Sprintf(
				`[{"op":"add","path":"/metadata/managedFields","value":[{"manager":%q,"operation":"Apply","apiVersion":%q,"fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{"f:freehold.dev/server":{}}}}}]}]`,
				m, s.intent().GetAPIVersion())
			if strings.Contains(s.fields, "labels") {
				env.Must(c.Patch(t.Context(), s.intent(), client.RawPatch(types.JSONPatchType, []byte(entry)),
					client.FieldOwner(m)), "taking over what nobody holds")
				forget()
			}
			env.Must(s.apply(t.Context(), c, m, true), "stating again")
			if got := entriesOf(s.live(t), r.manager); len(got) != 1 {
				t.Errorf("the manager has the entries %v", got)
			}
		})
	}
}

// TestOthersEntriesAreNotReset holds that no request under a manager of ours
// makes the API server forget what others own, also one that writes nothing.
func TestOthersEntriesAreNotReset(t *testing.T) {
	env := kit.NewEnv(t, plane)
	for _, r := range alone(t) {
		s, c := r.in(t, env)
		env.Must(s.apply(t.Context(), c, string(r.manager), true), "stating")
		env.Patch(s.intent(), "kubectl", noteB)
		for _, nothing := range []string{"{}", "metadata: {annotations: {example.com/note: null}}"} {
			s.more = nothing
			refused(t, s.mergePatch(t.Context(), c, string(r.manager), reset), "leave metadata.managedFields out")
			refused(t, s.mergePatch(t.Context(), admin, string(r.manager), reset), "is not that")
		}
	}
}
