package conversion

import (
	"strconv"
	"strings"
)

func get(from map[string]any, path string) (any, bool) {
	key, below, deeper := strings.Cut(path, ".")
	value, found := from[key]
	if !found || !deeper {
		return value, found
	}
	next, isMap := value.(map[string]any)
	if !isMap {
		return nil, false
	}
	return get(next, below)
}

// at is a field of the object that is made, nil if it is not set.
func (c *conversion) at(path string) any {
	value, _ := get(c.main, path)
	return value
}

func isSet(in map[string]any, path string) bool {
	_, found := get(in, path)
	return found
}

// cut removes the value at a path, and maps that get empty by it.
func cut(from map[string]any, path string) (any, bool) {
	key, below, deeper := strings.Cut(path, ".")
	value, found := from[key]
	if !found {
		return nil, false
	}
	if !deeper {
		delete(from, key)
		return value, true
	}
	next, isMap := value.(map[string]any)
	if !isMap {
		return nil, false
	}
	value, found = cut(next, below)
	if found && len(next) == 0 {
		delete(from, key)
	}
	return value, found
}

// set writes a value at a path, and makes the maps on the way.
func set(in map[string]any, path string, value any) {
	key, below, deeper := strings.Cut(path, ".")
	if !deeper {
		in[key] = value
		return
	}
	next, isMap := in[key].(map[string]any)
	if !isMap {
		next = map[string]any{}
		in[key] = next
	}
	set(next, below, value)
}

func add(in map[string]any, path string, items ...any) {
	had, _ := get(in, path)
	list, _ := had.([]any)
	if len(items) > 0 {
		set(in, path, append(list, items...))
	}
}

// leaf is one value that is no map and no list, or an empty one.
type leaf struct {
	path  string
	value any
}

// leaves are all values at and below a path, in the order of their paths.
func leaves(path string, value any) []leaf {
	switch v := value.(type) {
	case nil:
		return nil
	case map[string]any:
		if len(v) == 0 {
			break
		}
		var found []leaf
		for _, key := range sorted(v) {
			found = append(found, leaves(path+"."+key, v[key])...)
		}
		return found
	case []any:
		if len(v) == 0 {
			break
		}
		var found []leaf
		for i, item := range v {
			found = append(found, leaves(path+"["+strconv.Itoa(i)+"]", item)...)
		}
		return found
	}
	return []leaf{{path, value}}
}

func items(value any) []map[string]any {
	list, _ := value.([]any)
	found := make([]map[string]any, 0, len(list))
	for _, item := range list {
		if m, isMap := item.(map[string]any); isMap {
			found = append(found, m)
		}
	}
	return found
}

func text(value any) string {
	t, _ := value.(string)
	return t
}

// number is a value that is a whole number, or 0.
func number(value any) int64 {
	switch n := value.(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	case int:
		return int64(n)
	}
	return 0
}
