//go:build helm

package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// heldByTests are values without a golden: what they add is too long.
var heldByTests = map[string]string{
	"crds.install":           "TestChartBringsTheCRDs",
	"policy.otherNamespaces": "TestPoliciesNameTheOperators",
	"global":                 "belongs to a parent chart",
	"enabled":                "TestTheChartIsADependency",
	"tags":                   "TestTheChartIsADependency",
}

// A golden case without one of its values renders otherwise: else the value does
// nothing, or the case does not show what.
func TestEachValueOfTheCasesCounts(t *testing.T) {
	stated := map[string]bool{}
	for name, args := range cases {
		text, err := os.ReadFile(filepath.Join("testdata", name+".values.yaml"))
		if os.IsNotExist(err) {
			continue
		}
		var values map[string]any
		if err := yaml.Unmarshal(text, &values); err != nil {
			t.Fatal(err)
		}
		golden, err := os.ReadFile(filepath.Join("testdata", name+".golden.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for path := range leaves(schema(t), "") {
			without := copied(t, values)
			if !remove(without, strings.Split(path, ".")) {
				continue
			}
			stated[path] = true
			file := filepath.Join(t.TempDir(), "values.yaml")
			data, err := yaml.Marshal(without)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			// The case's own --values come last, and are left out.
			out, err := helm(t, append([]string{
				"template", "freehold", chart, "--namespace", "freehold-system", "--values",
				file,
			}, args[2:]...)...)
			if err == nil && firstDifference(string(golden), out) == "" {
				t.Errorf("%s renders the same without %s", name, path)
			}
		}
	}
	for path := range leaves(schema(t), "") {
		if !stated[path] && heldByTests[path] == "" {
			t.Errorf("no golden case states %s: add it to testdata/everything.values.yaml, or to another case", path)
		}
	}
}

func copied(t *testing.T, values map[string]any) (again map[string]any) {
	t.Helper()
	data, err := json.Marshal(values)
	if err == nil {
		err = json.Unmarshal(data, &again)
	}
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// remove removes a value, and reports whether it was there.
func remove(values map[string]any, path []string) bool {
	if len(path) == 1 {
		_, stated := values[path[0]]
		delete(values, path[0])
		return stated
	}
	below, ok := values[path[0]].(map[string]any)
	return ok && remove(below, path[1:])
}

// schema is values.schema.json.
func schema(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

// leaves are the values below a part of the schema that have no named parts, with their descriptions.
func leaves(root map[string]any, prefix string) map[string]string {
	found := map[string]string{}
	collect(root, root, prefix, found)
	return found
}

func collect(root, part map[string]any, path string, found map[string]string) {
	description, _ := part["description"].(string)
	if ref, ok := part["$ref"].(string); ok {
		part = root["definitions"].(map[string]any)[strings.TrimPrefix(ref, "#/definitions/")].(map[string]any)
	}
	below, _ := part["properties"].(map[string]any)
	if len(below) == 0 {
		found[path] = description
	}
	for name, p := range below {
		collect(root, p.(map[string]any), strings.TrimPrefix(path+"."+name, "."), found)
	}
}

// TestTheReadmeHasEveryValue holds the table of README.md to the schema and to
// values.yaml, which state the same values; -update writes it.
func TestTheReadmeHasEveryValue(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var defaults map[string]any
	if err := yaml.Unmarshal(text, &defaults); err != nil {
		t.Fatal(err)
	}
	described := leaves(schema(t), "")
	for _, ofParent := range []string{"global", "enabled", "tags"} {
		delete(described, ofParent)
	}
	var table strings.Builder
	table.WriteString("| value | default | meaning |\n| --- | --- | --- |\n")
	for _, path := range slices.Sorted(maps.Keys(described)) {
		value, stated := at(defaults, strings.Split(path, "."))
		if !stated && !strings.Contains(path, ".resources.") {
			t.Errorf("values.yaml has no %s, which values.schema.json has", path)
		}
		if described[path] == "" {
			t.Errorf("values.schema.json does not describe %s", path)
		}
		shown := ""
		if data, err := json.Marshal(value); err == nil && value != nil && string(data) != `""` {
			shown = "`" + string(data) + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", path, shown, described[path])
	}
	page := filepath.Join(chart, "README.md")
	text, err = os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- generated from values.schema.json and values.yaml -->\n",
		"<!-- end of what is generated -->\n"
	before, rest, begins := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table", page)
	}
	want := before + begin + table.String() + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := firstDifference(want, string(text)); diff != "" {
		t.Errorf("%s is out of date: %s\nRun make golden", page, diff)
	}
}

func at(values map[string]any, path []string) (any, bool) {
	value, stated := values[path[0]]
	if below, ok := value.(map[string]any); ok && len(path) > 1 {
		return at(below, path[1:])
	}
	return value, stated && len(path) == 1
}
