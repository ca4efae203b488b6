package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// change is a field that has another value. A value is JSON, empty for none.
type change struct {
	Field string `json:"field"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
}

func (c change) String() string {
	shown := func(value string) string {
		const most = 60
		if value == "" {
			return "nothing"
		}
		if text := []rune(safe(value)); len(text) > most {
			return string(text[:most]) + "…"
		}
		return safe(value)
	}
	return fmt.Sprintf("%s: %s -> %s", safe(c.Field), shown(c.From), shown(c.To))
}

// changesOf are the fields that differ between two values of a field, sorted. Items of lists are told apart by their
// names, as the API server does for those of a server; a list without names is one field.
func changesOf(field string, from, to any) []change {
	if reflect.DeepEqual(from, to) {
		return nil
	}
	before, after, parts := partsOf(from), partsOf(to), []string{}
	if before == nil || after == nil {
		return []change{{Field: field, From: jsonOf(from), To: jsonOf(to)}}
	}
	for part := range before {
		parts = append(parts, part)
	}
	for part := range after {
		if _, both := before[part]; !both {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	var all []change
	for _, part := range parts {
		all = append(all, changesOf(field+part, before[part], after[part])...)
	}
	if len(all) == 0 { // another order
		return []change{{Field: field, From: jsonOf(from), To: jsonOf(to)}}
	}
	return all
}

// partsOf are the fields of an object, or the items of a list, by what they add to a path; nil where there are none.
func partsOf(value any) map[string]any {
	parts := map[string]any{}
	switch v := value.(type) {
	case map[string]any:
		for name := range maps.Keys(v) {
			parts["."+name] = v[name]
		}
	case []any:
		for _, item := range v {
			object, isObject := item.(map[string]any)
			key := keyOf(object)
			if _, twice := parts[key]; !isObject || key == "" || twice {
				return nil
			}
			parts[key] = item
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return parts
}

func keyOf(item map[string]any) string {
	for _, key := range []string{"name", "mountPath"} {
		if value, is := item[key].(string); is {
			return fmt.Sprintf("[%s=%s]", key, value)
		}
	}
	return ""
}

func jsonOf(value any) string {
	if value == nil {
		return ""
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	return strings.TrimSpace(text.String())
}

// topFields are the fields of spec that changes are in, each once.
func topFields(changes []change) []string {
	var fields []string
	for _, c := range changes {
		field, _, _ := strings.Cut(strings.TrimPrefix(c.Field, "spec."), ".")
		field, _, _ = strings.Cut(field, "[")
		fields = append(fields, field)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// setField gives a field of an object's spec the value of another one's.
func setField(object, from *unstructured.Unstructured, field string) {
	spec, _ := object.Object["spec"].(map[string]any)
	other, _ := from.Object["spec"].(map[string]any)
	if value, stated := other[field]; stated {
		spec[field] = value
	} else {
		delete(spec, field)
	}
}
