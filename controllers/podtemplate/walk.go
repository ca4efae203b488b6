package podtemplate

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// spot is a set field, or an item of a list, of a core type.
type spot struct {
	// path is how a person would name it.
	path string
	// name of the field in JSON; empty for an item.
	name string
	// in is the struct type that declares the field; nil for an item.
	in reflect.Type
	// value is addressable if the root was a pointer.
	value reflect.Value
	// missing is the key that an item of a keyed list lacks.
	missing string
}

// mergeKeys are lists with more keys than the patchMergeKey of their Go type.
var mergeKeys = map[string][]string{
	"containerPort": {"containerPort", "protocol"},
	"topologyKey":   {"topologyKey", "whenUnsatisfiable"},
}

var marshaler = reflect.TypeFor[json.Marshaler]()

// walk visits the set fields and the items of lists below v, in order. It skips maps, which hold only strings and
// quantities here, and types that write their own JSON.
func walk(path string, v reflect.Value, visit func(spot)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walk(path, v.Elem(), visit)
		}
	case reflect.Struct:
		if reflect.PointerTo(v.Type()).Implements(marshaler) {
			return
		}
		for i := range v.NumField() {
			walkField(path, v, i, visit)
		}
	default:
	}
}

func walkField(path string, parent reflect.Value, i int, visit func(spot)) {
	field, value := parent.Type().Field(i), parent.Field(i)
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if !field.IsExported() || name == "-" || value.IsZero() {
		return
	}
	if name == "" { // inlined
		walk(path, value, visit)
		return
	}
	path = join(path, name)
	visit(spot{path: path, name: name, in: parent.Type(), value: value})
	if value.Kind() != reflect.Slice {
		walk(path, value, visit)
		return
	}
	if value.Type().Elem().Kind() != reflect.Struct {
		return
	}
	key := field.Tag.Get("patchMergeKey")
	for i := range value.Len() {
		item := spot{value: value.Index(i)}
		item.path, item.missing = itemPath(path, i, key, item.value)
		visit(item)
		walk(item.path, item.value, visit)
	}
}

// itemPath identifies an item by its key, its name, or its position.
func itemPath(path string, i int, key string, item reflect.Value) (named, missing string) {
	names := mergeKeys[key]
	switch {
	case names != nil:
	case key != "":
		names = []string{key}
	default:
		names = []string{"name"}
	}
	texts := make([]string, len(names))
	for n, name := range names {
		value, ok := byName(item, name)
		if !ok || value.IsZero() {
			if key != "" && name != "protocol" { // which the server defaults
				missing = name
			}
			return fmt.Sprintf("%s[%d]", path, i), missing
		}
		texts[n] = name + "=" + shown(value)
	}
	return path + "[" + strings.Join(texts, ",") + "]", ""
}

// shown is a key for a message, short and printable.
func shown(value reflect.Value) string {
	text := fmt.Sprint(value.Interface())
	if len(text) > 80 {
		text = strings.ToValidUTF8(text[:80], "") + "…"
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

func byName(item reflect.Value, name string) (reflect.Value, bool) {
	for _, field := range reflect.VisibleFields(item.Type()) {
		if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag == name {
			return item.FieldByIndex(field.Index), true
		}
	}
	return reflect.Value{}, false
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
