// Package schema holds the rules for APIs that kube-api-linter would hold, where they count: on the CRDs as they are
// installed (crd_test.go) and on the markers of the Go types they are generated from (types_test.go). The reasons are
// those of the Kubernetes API conventions,
// https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md.
package schema

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// sizeLimit keeps a CRD below the 256 KiB that annotations may hold, which is where client-side `kubectl apply` puts
// it, as JSON.
const sizeLimit = 256 << 10

// checks examine one CRD; each returns a finding for everything that is wrong.
var checks = map[string]func(apiextensionsv1.CustomResourceDefinition) []string{
	"all have a bound":      bounds,
	"lists merge":           schemas(lists),
	"list keys are there":   schemas(keys),
	"maps hold scalars":     schemas(scalarMaps),
	"rules explain":         schemas(rules),
	"conditions are a map":  conditions,
	"people find the kind":  columns,
	"autoscalers can scale": scale,
}

// schemas makes a check of CRDs from one of schemas, which sees every schema of every version with the path to it.
func schemas(check func(path string,
	s apiextensionsv1.JSONSchemaProps) []string,
) func(apiextensionsv1.CustomResourceDefinition) []string {
	return func(crd apiextensionsv1.CustomResourceDefinition) []string {
		var findings []string
		for _, version := range crd.Spec.Versions {
			walk(crd.Name+"/"+version.Name, *version.Schema.OpenAPIV3Schema,
				func(path string, s apiextensionsv1.JSONSchemaProps) {
					findings = append(findings, check(path, s)...)
				})
		}
		return findings
	}
}

func walk(path string, s apiextensionsv1.JSONSchemaProps, visit func(string, apiextensionsv1.JSONSchemaProps)) {
	visit(path, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		walk(path+"."+name, s.Properties[name], visit)
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(path+"[]", *s.Items.Schema, visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(path+"{}", *s.AdditionalProperties.Schema, visit)
	}
}

// lists: without a list type the API server replaces a list whole, and two
// writers erase each other's items. Types of core Kubernetes state theirs too.
func lists(path string, s apiextensionsv1.JSONSchemaProps) []string {
	if s.Type != "array" {
		return nil
	}
	if s.XListType == nil {
		return []string{path + " is a list without a list type: add +listType=map with +listMapKey, =set for scalars, or " +
			"=atomic where it is one value"}
	}
	if *s.XListType == "set" && s.Items.Schema.Type == "object" {
		return []string{path + " is a set of objects: make it a map with a +listMapKey"}
	}
	return nil
}

// keys: an item without its key cannot be merged, so that a key is required or has a default.
func keys(path string, s apiextensionsv1.JSONSchemaProps) []string {
	if s.XListType == nil || *s.XListType != "map" {
		return nil
	}
	if len(s.XListMapKeys) == 0 {
		return []string{path + " is a map list without keys: add +listMapKey"}
	}
	var findings []string
	item := s.Items.Schema
	for _, key := range s.XListMapKeys {
		property, exists := item.Properties[key]
		switch {
		case !exists:
			findings = append(findings, fmt.Sprintf("%s has key %s, which its items do not have", path, key))
		case !slices.Contains(item.Required, key) && property.Default == nil:
			findings = append(findings, fmt.Sprintf("%s has key %s, which is neither required nor has a default", path, key))
		}
	}
	return findings
}

// scalarMaps: a map of structs has no key that is a field, cannot be patched by name and says nothing of itself; the
// conventions want a list of named objects. Nothing in core Kubernetes that we embed has one either.
func scalarMaps(path string, s apiextensionsv1.JSONSchemaProps) []string {
	if s.AdditionalProperties == nil || s.AdditionalProperties.Schema == nil {
		return nil
	}
	if t := s.AdditionalProperties.Schema.Type; t == "object" || t == "array" {
		return []string{path + " is a map of " + t + "s: make it a list with +listType=map and a name in its items"}
	}
	return nil
}

// rules: what is refused must be told in words for a person.
func rules(path string, s apiextensionsv1.JSONSchemaProps) []string {
	var findings []string
	for _, rule := range s.XValidations {
		if rule.Message == "" && rule.MessageExpression == "" {
			findings = append(findings, fmt.Sprintf("%s: rule %q has no message: say what to write instead", path, rule.Rule))
		}
	}
	return findings
}

// conditions have several writers, one for each type.
func conditions(crd apiextensionsv1.CustomResourceDefinition) []string {
	var findings []string
	for _, version := range crd.Spec.Versions {
		path := crd.Name + "/" + version.Name + ".status.conditions"
		list, exists := version.Schema.OpenAPIV3Schema.Properties["status"].Properties["conditions"]
		switch {
		case !exists:
			findings = append(findings, path+" is missing: every kind says how it is")
		case list.XListType == nil || *list.XListType != "map" || !slices.Equal(list.XListMapKeys, []string{"type"}):
			findings = append(findings, path+" is not a map by type: add +listType=map and +listMapKey=type")
		}
	}
	return findings
}

// columns: what `kubectl get` shows, and the names that it takes.
func columns(crd apiextensionsv1.CustomResourceDefinition) []string {
	var findings []string
	if len(crd.Spec.Names.ShortNames) == 0 {
		findings = append(findings, crd.Name+" has no short name: add shortName to +kubebuilder:resource")
	}
	if !slices.Contains(crd.Spec.Names.Categories, "freehold") {
		findings = append(findings, crd.Name+" is not in category freehold: add categories=freehold to +kubebuilder:resource")
	}
	for _, version := range crd.Spec.Versions {
		have := map[string]bool{}
		for _, column := range version.AdditionalPrinterColumns {
			have[column.Name] = true
		}
		for _, want := range []string{"Ready", "Reason", "Age"} {
			if !have[want] {
				findings = append(findings,
					fmt.Sprintf("%s/%s has no column %s: add a +kubebuilder:printcolumn", crd.Name, version.Name, want))
			}
		}
	}
	return findings
}

// scale: where replicas stand in the spec, an autoscaler wants the scale
// subresource, and a GET of it fails unless the number is always there.
func scale(crd apiextensionsv1.CustomResourceDefinition) []string {
	var findings []string
	for _, version := range crd.Spec.Versions {
		path := crd.Name + "/" + version.Name
		replicas, scales := version.Schema.OpenAPIV3Schema.Properties["spec"].Properties["replicas"]
		if !scales {
			continue
		}
		if version.Subresources == nil || version.Subresources.Scale == nil ||
			version.Subresources.Scale.LabelSelectorPath == nil {
			findings = append(findings,
				path+" has spec.replicas and no scale subresource with a selector: add +kubebuilder:subresource:scale")
		}
		if replicas.Default == nil {
			findings = append(findings, path+".spec.replicas has no default: without one a GET of scale fails")
		}
	}
	return findings
}

// small judges a CRD file.
func small(name string, text []byte) []string {
	compact, err := yaml.YAMLToJSON(text)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", name, err)}
	}
	if len(compact) <= sizeLimit {
		return nil
	}
	return []string{
		fmt.Sprintf("%s has %d bytes as JSON, more than %d: make what is embedded opaque", name, len(compact), sizeLimit),
	}
}

func TestCustomResources(t *testing.T) {
	names, err := filepath.Glob("../../config/crd/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no CRD found (%v): run make generate", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		report(t, small(filepath.Base(name), text))
		for rule, check := range checks {
			t.Run(filepath.Base(name)+"/"+rule, func(t *testing.T) { report(t, check(crd(t, text))) })
		}
	}
}

// TestChecksSeeBadInput changes one thing in a right CRD at a time.
func TestChecksSeeBadInput(t *testing.T) {
	right, err := os.ReadFile("testdata/right.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for rule, check := range checks {
		if findings := check(crd(t, right)); len(findings) > 0 {
			t.Errorf("%s: the right CRD has findings: %v", rule, findings)
		}
	}
	for name, tc := range map[string]struct{ rule, remove, put, finding string }{
		"list without a type": {"lists merge", "x-kubernetes-list-type: atomic", "", "is a list without a list type"},
		"a set of objects": {
			"lists merge", "x-kubernetes-list-type: map", "x-kubernetes-list-type: set",
			"is a set of objects",
		},
		"an optional key": {"list keys are there", "required: [name]", "", "has key name, which is neither required"},
		"a key nobody has": {
			"list keys are there", "map-keys: [name]", "map-keys: [title]",
			"which its items do not have",
		},
		"no key": {"list keys are there", "x-kubernetes-list-map-keys: [name]", "", "without keys"},
		"a map of structs": {
			"maps hold scalars", "additionalProperties: {type: string}",
			"additionalProperties: {type: object}", "is a map of objects",
		},
		"a rule without message": {"rules explain", "message: choose another port, ", "", "has no message"},
		"conditions replaced":    {"conditions are a map", "x-kubernetes-list-map-keys: [type]", "", "is not a map by type"},
		"no conditions":          {"conditions are a map", "conditions:", "states:", "is missing"},
		"no short name":          {"people find the kind", "shortNames: [thing]", "", "has no short name"},
		"no category":            {"people find the kind", "categories: [freehold]", "", "is not in category"},
		"no age":                 {"people find the kind", "name: Age", "name: Old", "has no column Age"},
		"no selector": {
			"autoscalers can scale", "labelSelectorPath: .status.selector", "",
			"no scale subresource",
		},
		"no default": {"autoscalers can scale", "default: 1", "", "has no default"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(string(right), tc.remove) {
				t.Fatalf("testdata/right.yaml does not hold %q", tc.remove)
			}
			bad := strings.Replace(string(right), tc.remove, tc.put, 1)
			expect(t, checks[tc.rule](crd(t, []byte(bad))), tc.finding)
		})
	}
	expect(t, small("x.yaml", []byte("a: "+strings.Repeat("b", sizeLimit))), "more than 262144")
}

func crd(t *testing.T, text []byte) apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var read apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &read); err != nil {
		t.Fatal(err)
	}
	if len(read.Spec.Versions) == 0 {
		t.Fatal("the CRD has no version: the checks would pass without looking")
	}
	return read
}

func report(t *testing.T, findings []string) {
	t.Helper()
	for _, finding := range findings {
		t.Error(finding)
	}
}

// expect demands one finding for each piece of text, and no other.
func expect(t *testing.T, findings []string, pieces ...string) {
	t.Helper()
	if len(findings) != len(pieces) {
		t.Fatalf("%d findings, want %d: %v", len(findings), len(pieces), findings)
	}
	for i, piece := range pieces {
		if !strings.Contains(findings[i], piece) {
			t.Errorf("finding %q does not say %q", findings[i], piece)
		}
	}
}
