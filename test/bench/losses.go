package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// target is an object that others write to.
type target struct {
	kind schema.GroupVersionKind
	name string
}

// lossCount knows what foreign writers wrote, and counts what of it was lost: a field that its writer was told to
// stand, that nobody else may change, and that is gone or different when it is looked at later. A field that was lost
// is counted once, until its writer has written it again.
type lossCount struct {
	written map[target]map[string]entry
	lost    map[string]int // by writer
}

// entry is what a writer wrote into a field; the value is empty where it gave the field up.
type entry struct{ writer, value string }

func newLossCount() *lossCount {
	return &lossCount{written: map[target]map[string]entry{}, lost: map[string]int{}}
}

// wrote notes everything that a writer now says of an object, by path. What it
// said before and says no longer is to be gone.
func (l *lossCount) wrote(writer string, to target, fields map[string]string) {
	known := l.written[to]
	if known == nil {
		known = map[string]entry{}
		l.written[to] = known
	}
	for path, e := range known {
		if e.writer == writer {
			known[path] = entry{writer, ""}
		}
	}
	for path, value := range fields {
		known[path] = entry{writer, value}
	}
}

// look compares an object as it is with what was written into it.
func (l *lossCount) look(at target, live map[string]string) {
	for path, e := range l.written[at] {
		if live[path] != e.value {
			l.lost[e.writer]++
			delete(l.written[at], path)
		}
	}
}

// flat is what an object holds, by path. An item of a list is named by its name
// or type, as server-side apply tells it from others, and a value by itself.
func flat(object map[string]any) map[string]string {
	fields := map[string]string{}
	flatten("", object, fields)
	return fields
}

func flatten(path string, v any, fields map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			flatten(path+"."+key, child, fields)
		}
	case []any:
		for place, item := range v {
			if named, ok := item.(map[string]any); ok {
				flatten(fmt.Sprintf("%s[%s]", path, nameOf(named, place)), named, fields)
			} else {
				fields[fmt.Sprintf("%s[=%v]", path, item)] = "there"
			}
		}
	default:
		fields[path] = fmt.Sprint(v)
	}
}

func nameOf(item map[string]any, place int) string {
	for _, key := range []string{"name", "type"} {
		if name, ok := item[key].(string); ok {
			return name
		}
	}
	return fmt.Sprint(place)
}
