package model

import (
	"encoding/json"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/test/kit"
)

// managersOf builds the field managers of a kind once.
var managersOf = func() func(kind string) (*kit.FieldManagers, error) {
	var mu sync.Mutex
	known := map[string]*kit.FieldManagers{}
	world := newWorld()
	return func(kind string) (*kit.FieldManagers, error) {
		mu.Lock()
		defer mu.Unlock()
		if known[kind] == nil {
			managers, err := kit.FieldManagersOf(world.kinds[kind])
			if err != nil {
				return nil, err
			}
			known[kind] = managers
		}
		return known[kind], nil
	}
}()

// predict plays an operation on the API server's field manager in process, and returns whose every field must be now.
//
// What an apply does to owners follows from its body. Every other write is what became of the object: defaults and the
// fields that a strategy resets are the API server's, whoever holds them is predicted.
func predict(o *operation) (owners, error) {
	managers, err := managersOf(o.of.kind)
	if err != nil {
		return nil, err
	}
	before := o.before
	if before == nil {
		before = managers.Nothing(o.of.name)
	}
	fm := managers.Main
	if o.subresource() == "status" {
		fm = managers.Status
	}
	var after runtime.Object
	switch {
	case o.Verb == "delete":
		after = before
	case o.Verb == "apply":
		after, err = fm.Apply(before.DeepCopy(), o.content.DeepCopy(), o.Manager, o.force)
	case o.subresource() == "scale":
		replicas, _, _ := unstructured.NestedInt64(o.answer.Object, "spec", "replicas")
		after, err = managers.Scale(before, o.Manager, replicas)
	default:
		next := o.answer.DeepCopy()
		next.SetManagedFields(before.GetManagedFields())
		if record := o.record(); len(record) > 0 && o.main() {
			next.SetManagedFields(record) // who puts one in its place replaces it
		}
		after, err = fm.Update(before.DeepCopy(), next, o.Manager)
	}
	if err != nil {
		return nil, fmt.Errorf("playing %s: %w", o, err)
	}
	object, ok := after.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("playing %s: it made a %T", o, after)
	}
	return ownersOf(object)
}

// record is the managedFields that the body of an operation states, if any: that
// which was read and is put back, or that of a take-over.
func (o *operation) record() []metav1.ManagedFieldsEntry {
	if o.Verb == "update" {
		return o.content.GetManagedFields()
	}
	var steps []struct {
		Path  string          `json:"path"`
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(o.body, &steps) != nil {
		return nil // no JSON patch
	}
	for _, step := range steps {
		var entries []metav1.ManagedFieldsEntry
		if step.Path == "/metadata/managedFields" && json.Unmarshal(step.Value, &entries) == nil {
			return entries
		}
	}
	return nil
}

// owners are sets of fields by who holds them, each in its canonical text.
type owners map[ownership.Owner]string

func ownersOf(o *unstructured.Unstructured) (owners, error) {
	found := owners{}
	for _, entry := range entriesOf(o) {
		set, err := ownership.Fields(entry)
		if err != nil {
			return nil, err
		}
		text, err := set.ToJSON()
		if err != nil {
			return nil, err
		}
		found[ownerOf(entry)] = string(text)
	}
	return found, nil
}

func ownerOf(entry metav1.ManagedFieldsEntry) ownership.Owner {
	return ownership.Owner{Manager: entry.Manager, Operation: entry.Operation, Subresource: entry.Subresource}
}
