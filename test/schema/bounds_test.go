package schema

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// summed are the fields of core Kubernetes types and the opaque ones in a spec. Markers do not
// reach into such types, and there are hundreds of fields in them: the policy freehold-size and,
// where that is not installed, the operator bound what a spec weighs in sum.
var summed = []string{
	"mcpservers.spec.env[]", "mcpservers.spec.envFrom[]", "mcpservers.spec.volumes[]", "mcpservers.spec.volumeMounts[]",
	"mcpservers.spec.imagePullSecrets[].name", "mcpservers.spec.volumeClaimTemplates[].spec",
	"mcpservers.spec.network.egress[].to[].namespaceSelector", "mcpservers.spec.network.egress[].to[].podSelector",
	"mcpservers.spec.podTemplate", "mcpservers.spec.proxy.podTemplate", "mcpremoteproxies.spec.proxy.podTemplate",
}

// named bounds of the API server: it takes no other text in these.
var served = []string{".apiVersion", ".kind", ".metadata"}

// rest is what keeps a field that has no bound in its schema from being one: an item of summed, and empty for none.
func rest(path string) string {
	for _, field := range summed {
		if after, ok := strings.CutPrefix(path, field); ok && (after == "" || strings.ContainsAny(after[:1], ".[{")) {
			return field
		}
	}
	return ""
}

// sized is a rule that bounds the texts in a map, of which a schema of Go's maps cannot.
var sized = regexp.MustCompile(`size\((string\()?self(\.(limits|requests))?\[k\]\)?\) <= [0-9]+`)

// unbounded are the strings, lists and maps without a bound, each with its path. A map's
// values may be bounded by a rule on it or on what it is in.
func unbounded(crd apiextensionsv1.CustomResourceDefinition) []string {
	var found []string
	plural := crd.Spec.Names.Plural
	for _, version := range crd.Spec.Versions {
		ruled := map[string]bool{}
		walk(plural, *version.Schema.OpenAPIV3Schema, func(path string, s apiextensionsv1.JSONSchemaProps) {
			for _, rule := range s.XValidations {
				for _, at := range sized.FindAllStringSubmatch(rule.Rule, -1) {
					ruled[path+at[2]+"{}"] = true
				}
			}
			if what := lacks(s); what != "" && !ruled[path] && !slices.Contains(served, strings.TrimPrefix(path, plural)) {
				found = append(found, path+" "+what)
			}
		})
	}
	return found
}

// lacks is what bound a schema by itself lacks.
func lacks(s apiextensionsv1.JSONSchemaProps) string {
	switch {
	case s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields:
		return "is opaque"
	case (s.Type == "string" || s.XIntOrString) && s.MaxLength == nil && len(s.Enum) == 0 && s.Format != "date-time":
		return "is a string without maxLength"
	case s.Type == "array" && s.MaxItems == nil:
		return "is a list without maxItems"
	case s.AdditionalProperties != nil && s.MaxProperties == nil:
		return "is a map without maxProperties"
	case s.Type == "object" && s.AdditionalProperties == nil && len(s.Properties) == 0:
		return "is an object of whatever fields"
	}
	return ""
}

// bounds: whoever may write an object decides else how much memory its readers need.
func bounds(crd apiextensionsv1.CustomResourceDefinition) []string {
	var findings []string
	for _, field := range unbounded(crd) {
		path, _, _ := strings.Cut(field, " ")
		if rest(path) == "" {
			findings = append(findings,
				field+": add +kubebuilder:validation:MaxLength, MaxItems or MaxProperties, or for the values of a map a rule "+
					"that all have size(self[k]) <= N")
		}
	}
	return findings
}

// TestWhatIsBoundedInSumHasNoBound holds the list of exceptions to what needs one.
func TestWhatIsBoundedInSumHasNoBound(t *testing.T) {
	used := map[string]bool{}
	names, err := filepath.Glob("../../config/crd/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range unbounded(crd(t, text)) {
			path, _, _ := strings.Cut(field, " ")
			used[rest(path)] = true
		}
	}
	for _, field := range summed {
		if !used[field] {
			t.Errorf("%s is bounded, or is not there: remove it", field)
		}
		if _, in, ok := strings.Cut(field, "."); !ok || !strings.HasPrefix(in, "spec.") {
			t.Errorf("%s is not in a spec, of which alone the sum is bounded", field)
		}
	}
}

// A sum counts in characters, and a schema's own bounds of MCPOIDCConfig stay below it, so that
// the operator need not weigh one.
func TestALoginFitsByItsSchema(t *testing.T) {
	text, err := os.ReadFile("../../config/crd/freehold.dev_mcpoidcconfigs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range crd(t, text).Spec.Versions {
		if weight := heaviest(version.Schema.OpenAPIV3Schema.Properties["spec"]); weight > 384<<10 || weight < 64<<10 {
			t.Errorf("the heaviest MCPOIDCConfig has %d characters", weight)
		}
	}
}

// heaviest is how many characters a value may have at most, with its names.
func heaviest(s apiextensionsv1.JSONSchemaProps) (weight int64) {
	for name, property := range s.Properties {
		weight += int64(len(name)) + 4 + heaviest(property)
	}
	switch {
	case s.Items != nil:
		return *s.MaxItems * (2 + heaviest(*s.Items.Schema))
	case s.MaxLength != nil:
		return *s.MaxLength
	case len(s.Properties) == 0:
		return 32
	}
	return weight
}

// TestABoundIsMissed takes one bound away at a time.
func TestABoundIsMissed(t *testing.T) {
	right, err := os.ReadFile("testdata/right.yaml")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, bounds(crd(t, right)))
	instead := map[string]string{"maxItems: 8": "minItems: 1", "maxProperties: 4": "minProperties: 1"}
	for remove, finding := range map[string]string{
		"maxItems: 8":         "is a list without maxItems",
		"maxLength: 64, ":     "is a string without maxLength",
		"maxProperties: 4":    "is a map without maxProperties",
		"size(self[k]) <= 63": "is a string without maxLength",
	} {
		if !strings.Contains(string(right), remove) {
			t.Fatalf("testdata/right.yaml does not hold %q", remove)
		}
		expect(t, bounds(crd(t, []byte(strings.Replace(string(right), remove, instead[remove], 1)))), finding)
	}
	if rest("mcpservers.spec.environment") != "" || rest("mcpservers.spec.podTemplates.a") != "" ||
		rest("mcpservers.spec.env[].name") == "" {
		t.Error("an exception is not that of its name alone")
	}
}
