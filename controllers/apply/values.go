package apply

import (
	"encoding/base64"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// satisfiedBy reports whether merging the intent into live would change nothing: live has the intent's values, and
// its list items in order.
//
// It walks the intent, not the object, and reads Go values directly: merging and comparing whole objects costs forty
// times as much. Tests hold it to the result of a merge. A value that the API server rewrote counts as different. Of
// an object read as metadata the rest counts as equal: the manager still owns it.
func (in intent) satisfiedBy(live runtime.Object) bool {
	stated := in.stated
	if _, partial := live.(*metav1.PartialObjectMetadata); partial {
		stated = map[string]any{"metadata": stated["metadata"]}
	}
	root := reflect.ValueOf(live)
	if u, ok := live.(*unstructured.Unstructured); ok {
		root = reflect.ValueOf(u.Object)
	}
	return comparer{in.value.Schema()}.covers(in.value.TypeRef(), stated, plain(root))
}

// comparer compares an intent with a live object. A live value is plain, and the zero Value if absent.
type comparer struct{ schema *schema.Schema }

func (c comparer) covers(ref schema.TypeRef, want any, live reflect.Value) bool {
	switch want := want.(type) {
	case map[string]any:
		of, ok := c.schema.Resolve(ref)
		if ok && of.Map != nil && of.Map.ElementRelationship != schema.Atomic {
			return c.coversFields(of.Map, want, live)
		}
	case []any:
		of, ok := c.schema.Resolve(ref)
		if ok && of.List != nil && of.List.ElementRelationship == schema.Associative {
			return c.coversItems(of.List, want, live)
		}
	}
	return equal(want, live)
}

func (c comparer) coversFields(of *schema.Map, want map[string]any, live reflect.Value) bool {
	if !isObject(live) {
		return false
	}
	for name, stated := range want {
		if !c.covers(typeOf(of, name, stated), stated, fieldOf(live, name)) {
			return false
		}
	}
	return true
}

// typeOf is the type of a field. A scalar needs none.
func typeOf(of *schema.Map, name string, stated any) schema.TypeRef {
	switch stated.(type) {
	case map[string]any, []any:
		if field, ok := of.FindField(name); ok {
			return field.Type
		}
	}
	return of.ElementType
}

// coversItems finds the wanted items in order. Other managers' items may stand anywhere; a merge would move an item
// of ours that is out of order or duplicated.
func (c comparer) coversItems(of *schema.List, want []any, live reflect.Value) bool {
	if live.Kind() != reflect.Slice {
		return false
	}
	next := 0
	for i := range live.Len() {
		item := plain(live.Index(i))
		switch {
		case next < len(want) && c.same(of, want[next], item):
			if !c.covers(of.ElementType, want[next], item) {
				return false
			}
			next++
		case slices.ContainsFunc(want, func(w any) bool { return c.same(of, w, item) }):
			return false
		}
	}
	return next == len(want)
}

// same reports whether an intent's item and a live one are the same: equal in a set, of equal keys in a keyed list.
func (c comparer) same(of *schema.List, want any, item reflect.Value) bool {
	if len(of.Keys) == 0 {
		return equal(want, item)
	}
	fields, ok := want.(map[string]any)
	if !ok || !isObject(item) {
		return false
	}
	for _, key := range of.Keys {
		stated, ok := fields[key]
		if !ok {
			stated = c.keyDefault(of, key)
		}
		field := fieldOf(item, key)
		if !field.IsValid() {
			field = plain(reflect.ValueOf(c.keyDefault(of, key)))
		}
		if !equal(stated, field) {
			return false
		}
	}
	return true
}

// keyDefault is the value of a key that an item leaves out, nil without a default.
func (c comparer) keyDefault(of *schema.List, key string) any {
	if item, ok := c.schema.Resolve(of.ElementType); ok && item.Map != nil {
		if field, ok := item.Map.FindField(key); ok {
			return field.Default
		}
	}
	return nil
}

// equal reports whether live is want, and nothing more.
func equal(want any, live reflect.Value) bool {
	switch want := want.(type) {
	case nil:
		return !live.IsValid()
	case string:
		return live.Kind() == reflect.String && live.String() == want ||
			isBytes(live) && base64.StdEncoding.EncodeToString(live.Bytes()) == want
	case bool:
		return live.Kind() == reflect.Bool && live.Bool() == want
	case int64:
		return live.CanInt() && live.Int() == want || live.CanFloat() && live.Float() == float64(want) ||
			live.CanUint() && want >= 0 && live.Uint() == uint64(want)
	case float64:
		return live.CanFloat() && live.Float() == want || live.CanInt() && float64(live.Int()) == want
	case map[string]any:
		if !isObject(live) || lengthOf(live) != len(want) {
			return false
		}
		for name, stated := range want {
			if !equal(stated, fieldOf(live, name)) {
				return false
			}
		}
		return true
	case []any:
		if live.Kind() != reflect.Slice || live.Len() != len(want) {
			return false
		}
		for i, stated := range want {
			if !equal(stated, plain(live.Index(i))) {
				return false
			}
		}
		return true
	}
	return false
}

// plain follows pointers, and replaces a value by the JSON that it writes itself. The zero Value stands for null.
func plain(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Invalid:
		return v
	case reflect.Map, reflect.Slice:
		if v.IsNil() {
			return reflect.Value{}
		}
	case reflect.Struct:
		// Common, and without a cheap conversion.
		if v.Type() == intOrString && v.CanAddr() {
			return plainPort(v.Addr().Interface().(*intstr.IntOrString))
		}
	default:
	}
	if own := value.TypeReflectEntryOf(v.Type()); own.CanConvertToUnstructured() {
		written, err := own.ToUnstructured(v)
		if err != nil {
			return reflect.Value{}
		}
		return reflect.ValueOf(written)
	}
	return v
}

var intOrString = reflect.TypeFor[intstr.IntOrString]()

func plainPort(port *intstr.IntOrString) reflect.Value {
	if port.Type == intstr.String {
		return reflect.ValueOf(&port.StrVal).Elem()
	}
	return reflect.ValueOf(&port.IntVal).Elem()
}

func isBytes(v reflect.Value) bool {
	return v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8
}

func isObject(v reflect.Value) bool { return v.Kind() == reflect.Struct || v.Kind() == reflect.Map }

// fieldOf is a field of an object by its JSON name, plain; the zero Value if JSON omits it.
func fieldOf(object reflect.Value, name string) reflect.Value {
	if object.Kind() == reflect.Map {
		if texts, ok := object.Interface().(map[string]string); ok {
			if text, ok := texts[name]; ok {
				return reflect.ValueOf(text)
			}
			return reflect.Value{}
		}
		return plain(object.MapIndex(reflect.ValueOf(name).Convert(object.Type().Key())))
	}
	field, ok := value.TypeReflectEntryOf(object.Type()).Fields()[name]
	if !ok {
		return reflect.Value{}
	}
	v := field.GetFrom(object)
	if field.CanOmit(v) {
		return reflect.Value{}
	}
	return plain(v)
}

// lengthOf counts the fields that JSON would have.
func lengthOf(object reflect.Value) int {
	if object.Kind() == reflect.Map {
		return object.Len()
	}
	n := 0
	for _, field := range value.TypeReflectEntryOf(object.Type()).OrderedFields() {
		if !field.CanOmit(field.GetFrom(object)) {
			n++
		}
	}
	return n
}
