// Package ownership tells who owns what, as stories of two or more actors on one object, in process, with the API
// server's own field manager: the code that kube-apiserver runs, without a server. What needs admission, defaults of
// built-in kinds or garbage collection is told in test/integration.
package ownership

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/test/kit"
)

// live is one object in an API server.
type live struct {
	*testing.T
	managers      *kit.FieldManagers
	main, status  *managedfields.FieldManager
	kind          schema.GroupVersionKind
	object        *unstructured.Unstructured
	deleted, gone bool
	births        int
}

// Apply applies an intent, YAML or an apply configuration, to the main resource. A manager of Freehold's is held to its
// grant and forces what is exclusively its own; everybody else is not forced. It reports whether the object changed,
// its managedFields included.
func (l *live) Apply(manager string, intent any) bool {
	l.Helper()
	changed, err := l.apply(l.main, "", manager, intent, l.forces(manager, ""))
	if err != nil {
		l.Fatalf("applying as %s: %v", manager, err)
	}
	return changed
}

// ApplyStatus is Apply on the status subresource.
func (l *live) ApplyStatus(manager string, intent any) bool {
	l.Helper()
	changed, err := l.apply(l.status, "status", manager, intent, l.forces(manager, "status"))
	if err != nil {
		l.Fatalf("applying status as %s: %v", manager, err)
	}
	return changed
}

// Contended applies unforced and expects a conflict over exactly these fields.
func (l *live) Contended(manager string, intent any, fields ...string) {
	l.Helper()
	_, err := l.apply(l.main, "", manager, intent, false)
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		l.Fatalf("applying as %s: want a conflict over %s, got %v", manager, fields, err)
	}
	var got []string
	for _, cause := range status.Status().Details.Causes {
		got = append(got, cause.Field)
	}
	if !slices.Equal(got, fields) {
		l.Fatalf("applying as %s: conflict over %s, want %s", manager, got, fields)
	}
}

// Update changes the object as a client that reads, edits and puts does.
func (l *live) Update(manager string, edit func(object map[string]any)) {
	l.Helper()
	changed := l.object.DeepCopy()
	edit(changed.Object)
	result, err := l.main.Update(l.object, changed, manager)
	if err != nil {
		l.Fatalf("updating as %s: %v", manager, err)
	}
	l.keep(result.(*unstructured.Unstructured))
}

// Delete asks for the object's end: it is gone once nobody holds it.
func (l *live) Delete() {
	l.deleted = true
	l.gone = len(l.object.GetFinalizers()) == 0
}

func (l *live) apply(
	fm *managedfields.FieldManager, subresource, manager string, intent any, force bool,
) (bool, error) {
	l.Helper()
	patch := l.intent(intent)
	if l.gone {
		// The API server creates what an apply without uid names.
		if patch.GetUID() != "" || subresource != "" {
			return false, apierrors.NewConflict(schema.GroupResource{Resource: l.kind.Kind}, patch.GetName(),
				errors.New("uid mismatch"))
		}
		l.object, l.gone, l.deleted = l.nothing(patch.GetName()), false, false
	}
	patch.SetUID("") // a precondition, not content
	result, err := fm.Apply(l.object, patch, manager, force)
	if err != nil {
		return false, err
	}
	next := result.(*unstructured.Unstructured)
	if subresource == "status" {
		next = withStatus(l.object, next)
	}
	before := l.object
	l.keep(next)
	l.holdToGrant(manager, subresource)
	return !same(before, next), nil
}

func (l *live) keep(next *unstructured.Unstructured) {
	next.SetUID(l.object.GetUID())
	l.object = next
	if l.deleted && len(next.GetFinalizers()) == 0 {
		l.gone = true
	}
}

// withStatus is what the strategy of a status subresource does: only status
// and the record of owners come from the request.
func withStatus(before, after *unstructured.Unstructured) *unstructured.Unstructured {
	next := before.DeepCopy()
	if status, ok := after.Object["status"]; ok {
		next.Object["status"] = status
	} else {
		delete(next.Object, "status")
	}
	next.SetManagedFields(after.GetManagedFields())
	return next
}

// same compares all but the times in managedFields, as the API server does before it writes.
func same(a, b *unstructured.Unstructured) bool {
	return reflect.DeepEqual(timeless(a), timeless(b))
}

func timeless(object *unstructured.Unstructured) map[string]any {
	shown := object.DeepCopy()
	entries := shown.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	slices.SortFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		return strings.Compare(a.Manager+string(a.Operation)+a.Subresource, b.Manager+string(b.Operation)+b.Subresource)
	})
	shown.SetManagedFields(entries)
	return shown.Object
}

func (l *live) intent(intent any) *unstructured.Unstructured {
	l.Helper()
	var body []byte
	var err error
	if text, ok := intent.(string); ok {
		body, err = yaml.YAMLToJSON([]byte(text))
	} else {
		body, err = json.Marshal(intent)
	}
	patch := &unstructured.Unstructured{}
	if err == nil {
		err = json.Unmarshal(body, &patch.Object)
	}
	if err != nil {
		l.Fatalf("reading an intent: %v", err)
	}
	if patch.Object["apiVersion"] == nil {
		patch.SetGroupVersionKind(l.kind)
	}
	if patch.GetName() == "" {
		patch.SetName(l.object.GetName())
	}
	return patch
}

func (l *live) nothing(name string) *unstructured.Unstructured {
	l.births++
	object := l.managers.Nothing(name)
	object.SetUID(types.UID(fmt.Sprintf("uid-%d", l.births)))
	return object
}

func (l *live) grant(manager, subresource string) (ownership.Grant, bool) {
	return contract.Freehold().Grant(ownership.Manager(manager),
		ownership.Object{GroupVersionKind: l.kind, Subresource: subresource}, l.object.GetName())
}

func (l *live) forces(manager, subresource string) bool {
	grant, ok := l.grant(manager, subresource)
	return ok && grant.Mode == ownership.Exclusive
}

// holdToGrant fails the story if a manager of ours came to own a field outside its grant.
func (l *live) holdToGrant(manager, subresource string) {
	l.Helper()
	grant, ok := l.grant(manager, subresource)
	if !ok {
		if strings.Contains(manager, "freehold.dev/") {
			l.Fatalf("%s has no grant on %s/%s", manager, l.kind.Kind, subresource)
		}
		return
	}
	owned, err := ownership.Applied(l.object.GetManagedFields(), ownership.Manager(manager), subresource)
	if err != nil {
		l.Fatal(err)
	}
	if outside := grant.Outside(owned); len(outside) > 0 {
		l.Fatalf("%s owns fields outside its grant: %s", manager, outside)
	}
}

// Owns expects that a field is owned by one manager, and by it alone.
func (l *live) Owns(manager string, paths ...string) {
	l.Helper()
	for _, path := range paths {
		if owners := l.owners(path); !slices.Equal(owners, []string{manager}) {
			l.Errorf("%s is owned by %q, want %s alone\n%s", path, owners, manager, kit.Owners(l.object.GetManagedFields()))
		}
	}
}

// OwnsNothing expects that a manager has given up everything.
func (l *live) OwnsNothing(manager string) {
	l.Helper()
	for _, entry := range l.object.GetManagedFields() {
		if entry.Manager == manager {
			l.Errorf("%s still owns something\n%s", manager, kit.Owners(l.object.GetManagedFields()))
		}
	}
}

func (l *live) owners(path string) []string {
	l.Helper()
	owners, err := ownership.Owners(l.object.GetManagedFields(), ownership.MustPath(path))
	if err != nil {
		l.Fatal(err)
	}
	var names []string
	for _, owner := range owners {
		if !slices.Contains(names, owner.Manager) {
			names = append(names, owner.Manager)
		}
	}
	slices.Sort(names)
	return names
}

// Has expects a value at a path of field names and list indices.
func (l *live) Has(want any, path ...any) {
	l.Helper()
	if got := l.at(path...); !reflect.DeepEqual(got, want) {
		l.Errorf("%v is %v, want %v", path, got, want)
	}
}

// HasNot expects nothing at a path.
func (l *live) HasNot(path ...any) {
	l.Helper()
	if got := l.at(path...); got != nil {
		l.Errorf("%v is %v, want nothing there", path, got)
	}
}

// at follows field names, and the item of a list whose name or type is given.
func (l *live) at(path ...any) any {
	var at any = l.object.Object
	for _, step := range path {
		switch in := at.(type) {
		case map[string]any:
			at = in[step.(string)]
		case []any:
			i := slices.IndexFunc(in, func(item any) bool {
				fields, ok := item.(map[string]any)
				return ok && (fields["name"] == step || fields["type"] == step)
			})
			if i < 0 {
				return nil
			}
			at = in[i]
		default:
			return nil
		}
	}
	return at
}
