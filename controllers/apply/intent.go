package apply

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// intent is one manager's complete statement about one object, frozen to bytes: a client that decoded the answer into
// the apply configuration would add other managers' fields, and the next apply would own them.
type intent struct {
	gvk     schema.GroupVersionKind
	key     types.NamespacedName
	content map[string]any
	// stated is content without the object's kind.
	stated map[string]any
	fields *fieldpath.Set
	// owned is fields, encoded as in managedFields.
	owned string
	value *typed.TypedValue
	// keepOwned: content was extracted from the live object. noTakeover: the apply takes no object over.
	keepOwned, noTakeover bool
}

// The API server never counts these fields as owned.
var stripped = fieldpath.NewSet(
	fieldpath.MakePathOrDie("apiVersion"),
	fieldpath.MakePathOrDie("kind"),
	fieldpath.MakePathOrDie("metadata"),
	fieldpath.MakePathOrDie("metadata", "name"),
	fieldpath.MakePathOrDie("metadata", "namespace"),
)

// freeze returns a *BadIntent if the configuration lacks its kind or name, states what only the writer may state, or
// does not fit its schema.
func (c *Converter) freeze(ac runtime.ApplyConfiguration, opts ...Option) (intent, error) {
	content, err := contentOf(ac)
	if err != nil {
		return intent{}, &BadIntent{Err: err}
	}
	restated := slices.Contains(opts, KeepOwned)
	if !restated {
		prune(content)
	}
	u := &unstructured.Unstructured{Object: content}
	in := intent{
		gvk:        u.GroupVersionKind(),
		key:        types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()},
		content:    content,
		keepOwned:  restated,
		noTakeover: slices.Contains(opts, NoTakeover),
	}
	if in.gvk.Kind == "" || in.key.Name == "" {
		return intent{}, &BadIntent{Err: fmt.Errorf("intent without kind or name")}
	}
	for _, field := range []string{"uid", "resourceVersion", "managedFields"} {
		if _, found, _ := unstructured.NestedFieldNoCopy(content, "metadata", field); found { //nolint:errcheck // a wrong type is found by the schema below
			return intent{}, &BadIntent{Err: fmt.Errorf("intent states metadata.%s, which is the writer's", field)}
		}
	}
	if in.value, err = c.typed(in.gvk, u); err != nil {
		return intent{}, &BadIntent{Err: err}
	}
	if in.fields, err = in.value.ToFieldSet(); err != nil {
		return intent{}, &BadIntent{Err: fmt.Errorf("listing the intent's fields: %w", err)}
	}
	in.fields = in.fields.Difference(stripped)
	owned, err := in.fields.ToJSON()
	if err != nil {
		return intent{}, &BadIntent{Err: fmt.Errorf("encoding the intent's fields: %w", err)}
	}
	in.owned = string(owned)
	in.stated = maps.Clone(content)
	delete(in.stated, "apiVersion")
	delete(in.stated, "kind")
	return in, nil
}

func contentOf(ac runtime.ApplyConfiguration) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ac)
	if err != nil {
		return nil, fmt.Errorf("reading the intent: %w", err)
	}
	if _, shared := ac.(runtime.Unstructured); shared {
		content = runtime.DeepCopyJSON(content)
	}
	return content, nil
}

// hash ignores the transition times of conditions: a condition that is stated again after another writer changed it
// would otherwise be a new intent each second.
func (in intent) hash() ([sha256.Size]byte, error) {
	// encoding/json sorts the keys of maps: same content, same bytes.
	data, err := json.Marshal(timeless(in.content))
	if err != nil {
		return [sha256.Size]byte{}, &BadIntent{Err: fmt.Errorf("encoding the intent: %w", err)}
	}
	return sha256.Sum256(data), nil
}

func timeless(content map[string]any) map[string]any {
	status, _ := content["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	if len(conditions) == 0 {
		return content
	}
	content, status, conditions = maps.Clone(content), maps.Clone(status), slices.Clone(conditions)
	for i := range conditions {
		if condition, ok := conditions[i].(map[string]any); ok {
			condition = maps.Clone(condition)
			delete(condition, "lastTransitionTime")
			conditions[i] = condition
		}
	}
	status["conditions"], content["status"] = conditions, status
	return content
}

// meaningfulWhenEmpty are the fields whose empty objects are kept: the API server fills in an emptyDir for a volume
// without a source, and no later apply removes it.
var meaningfulWhenEmpty = map[string]bool{"emptyDir": true}

// prune removes empty maps, empty lists and nulls, from the leaves up, and reports whether nothing is left: the
// server answers 422 to whoever removes the last item below an explicitly empty parent. Items of lists stay, because
// a removal would move the others.
func prune(v any) (empty bool) {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		maps.DeleteFunc(v, func(name string, child any) bool {
			gone := prune(child)
			_, object := child.(map[string]any)
			return gone && (!object || !meaningfulWhenEmpty[name])
		})
		return len(v) == 0
	case []any:
		for _, item := range v {
			prune(item)
		}
		return len(v) == 0
	}
	return false
}

func (in intent) has(field string) bool {
	_, ok := in.content[field]
	return ok
}
