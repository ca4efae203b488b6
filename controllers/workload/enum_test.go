package workload

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// A value of an enum that this release does not know is a problem of the spec, whichever enum it is: the
// CustomResourceDefinition of a later release may have it. All enums are found in the CustomResourceDefinitions.
func TestRender_AnUnknownValueOfAnEnum_IsAProblem(t *testing.T) {
	for _, plural := range []string{"mcpservers", "mcpremoteproxies"} {
		enums := map[string][]string{}
		enumsIn(schemaOf(t, plural), "", enums)
		if len(enums) < 2 {
			t.Fatalf("%s: the enums are %v", plural, enums)
		}
		for path, known := range enums {
			t.Run(plural+path, func(t *testing.T) {
				for _, value := range known {
					if found := ofALaterRelease(t, plural, path, value); len(found) > 0 {
						t.Errorf("%s is known, and the problems are %v", value, found)
					}
				}
				want := "spec" + strings.ReplaceAll(path, "[]", "[0]")
				if found := ofALaterRelease(t, plural, path, "Later"); !slices.Equal(found, []string{want}) {
					t.Errorf("the problems are %v, want one of %s", found, want)
				}
			})
		}
	}
	// Those of the others add rights: an algorithm that the runner does not know verifies no token.
	for plural, adding := range map[string][]string{"mcpoidcconfigs": {".oidc.algorithms[]"}, "mcpauthzconfigs": nil} {
		enums := map[string][]string{}
		enumsIn(schemaOf(t, plural), "", enums)
		if found := slices.Sorted(maps.Keys(enums)); !slices.Equal(found, adding) {
			t.Errorf("%s: the enums are %v: say what becomes of a value that is not known", plural, found)
		}
	}
}

func schemaOf(t *testing.T, plural string) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	data, err := os.ReadFile("../../config/crd/freehold.dev_" + plural + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

func enumsIn(s apiextensionsv1.JSONSchemaProps, path string, enums map[string][]string) {
	for _, value := range s.Enum {
		enums[path] = append(enums[path], strings.Trim(string(value.Raw), `"`))
	}
	for name, below := range s.Properties {
		enumsIn(below, path+"."+name, enums)
	}
	if s.Items != nil {
		enumsIn(*s.Items.Schema, path+"[]", enums)
	}
}

// ofALaterRelease are the fields whose values are said to be of one.
func ofALaterRelease(t *testing.T, plural, path, value string) []string {
	t.Helper()
	var spec any = value
	steps := strings.Split(strings.ReplaceAll(path, "[]", ".[]"), ".")[1:]
	for _, step := range slices.Backward(steps) {
		if step == "[]" {
			spec = []any{spec}
			continue
		}
		spec = map[string]any{step: spec}
	}
	data, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	object := kinds.Servers().New()
	if plural != "mcpservers" {
		object = kinds.RemoteProxies().New()
	}
	if err := json.Unmarshal(data, object); err != nil {
		t.Fatal(err)
	}
	var fields []string
	for _, problem := range Render(Input{Object: object}, podtemplate.Release{RunnerImage: "runner"}).Problems {
		if strings.Contains(problem.Message, "of a later release") {
			fields = append(fields, problem.Field)
		}
	}
	return fields
}
