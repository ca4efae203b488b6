package conditions

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

var version = v1alpha1.SchemeGroupVersion.String()

// Of what the definitions of this release declare, nothing is unknown. What a later one
// adds is, at each place where it may.
func TestFieldsAreKnown(t *testing.T) {
	kinds := map[string]any{
		"MCPServer": &v1alpha1.MCPServer{}, "MCPRemoteProxy": &v1alpha1.MCPRemoteProxy{},
		"MCPOIDCConfig": &v1alpha1.MCPOIDCConfig{}, "MCPAuthzConfig": &v1alpha1.MCPAuthzConfig{},
		"MCPGroup": &v1alpha1.MCPGroup{},
	}
	files, err := filepath.Glob("../../config/crd/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		var definition apiextensionsv1.CustomResourceDefinition
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(content, &definition); err != nil {
			t.Fatal(err)
		}
		kind := definition.Spec.Names.Kind
		if kinds[kind] == nil {
			t.Fatalf("%s is not in this test", kind)
		}
		var declared, structs []fieldpath.Path
		walk(definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"], fieldpath.MakePathOrDie("spec"),
			&declared, &structs)
		if f := UnknownFields(kinds[kind], version, entries(declared...)); f != nil {
			t.Errorf("%s: %s", kind, f.Message)
		}
		for _, path := range structs {
			later := append(path.Copy(), fieldpath.MakePathOrDie("later")...)
			leaf := append(later.Copy(), fieldpath.MakePathOrDie("enabled")...)
			f := UnknownFields(kinds[kind], version, entries(append(declared, leaf)...))
			if want := strings.TrimPrefix(later.String(), "."); f == nil || !strings.Contains(f.Message, " "+want+". ") {
				t.Errorf("%s: want %s to be named: %v", kind, want, f)
			}
			seen++
		}
	}
	if seen < 50 {
		t.Errorf("the definitions have %d places for fields", seen)
	}
}

// walk notes the paths of all that is declared, and of the objects that a field could be added to.
func walk(schema apiextensionsv1.JSONSchemaProps, at fieldpath.Path, declared, structs *[]fieldpath.Path) {
	*declared = append(*declared, at.Copy())
	if schema.Type == "object" && len(schema.Properties) > 0 {
		*structs = append(*structs, at.Copy())
	}
	for name := range schema.Properties {
		walk(schema.Properties[name], append(at.Copy(), fieldpath.MakePathOrDie(name)...), declared, structs)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		walk(*schema.AdditionalProperties.Schema, append(at.Copy(), fieldpath.MakePathOrDie("any")...), declared, structs)
	}
	if schema.Items == nil || schema.XListType == nil || *schema.XListType == "atomic" {
		return
	}
	item := fieldpath.MakePathOrDie(value.NewValueInterface("one"))
	if *schema.XListType == "map" {
		var keys []any
		for _, key := range schema.XListMapKeys {
			keys = append(keys, key, "one")
		}
		item = fieldpath.MakePathOrDie(fieldpath.KeyByFields(keys...))
	}
	walk(*schema.Items.Schema, append(at.Copy(), item...), declared, structs)
}

func entries(paths ...fieldpath.Path) []metav1.ManagedFieldsEntry {
	raw, err := fieldpath.NewSet(paths...).ToJSON()
	if err != nil {
		panic(err)
	}
	return []metav1.ManagedFieldsEntry{
		{
			Manager: "git", Operation: metav1.ManagedFieldsOperationApply, APIVersion: version,
			FieldsV1: metav1.NewFieldsV1(string(raw)),
		},
	}
}

func TestUnknownFieldsOfOthers(t *testing.T) {
	later := entries(fieldpath.MakePathOrDie("spec", "later"))
	for name, change := range map[string]func(*metav1.ManagedFieldsEntry){
		"of the status":       func(e *metav1.ManagedFieldsEntry) { e.Subresource = "status" },
		"of another version":  func(e *metav1.ManagedFieldsEntry) { e.APIVersion = "freehold.dev/v1" },
		"that cannot be read": func(e *metav1.ManagedFieldsEntry) { e.FieldsV1 = metav1.NewFieldsV1(`{"f:spec":`) },
		"beside the spec": func(e *metav1.ManagedFieldsEntry) {
			e.FieldsV1 = metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:later":{}}}}`)
		},
		"that are in a template": func(e *metav1.ManagedFieldsEntry) {
			e.FieldsV1 = metav1.NewFieldsV1(`{"f:spec":{"f:podTemplate":{"f:later":{}}}}`)
		},
	} {
		changed := slices.Clone(later)
		change(&changed[0])
		if f := UnknownFields(&v1alpha1.MCPServer{}, version, changed); f != nil {
			t.Errorf("%s: %s", name, f.Message)
		}
	}
	var many []fieldpath.Path
	for i := range 30 {
		many = append(many, fieldpath.MakePathOrDie("spec", "env", fieldpath.KeyByFields("name", fmt.Sprintf("N%02d", i)),
			"later"))
	}
	twice := append(entries(many...), entries(many...)...)
	f := UnknownFields(&v1alpha1.MCPServer{}, version, twice)
	if f == nil || strings.Count(f.Message, "later,") != mostUnknown ||
		!strings.Contains(f.Message, `spec.env[name="N00"].later, spec.env[name="N01"].later, `) ||
		!strings.Contains(f.Message, ", and more. ") {
		t.Errorf("of many: %v", f)
	}
}

func BenchmarkUnknownFields(b *testing.B) {
	var paths []fieldpath.Path
	for i := range 20 {
		paths = append(paths, fieldpath.MakePathOrDie("spec", "env", fieldpath.KeyByFields("name", fmt.Sprintf("N%02d", i)),
			"value"))
	}
	of := entries(paths...)
	b.ReportAllocs()
	for b.Loop() {
		UnknownFields(&v1alpha1.MCPServer{}, version, of)
	}
}
