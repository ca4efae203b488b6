package conversion

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/config/crd"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// judge is the schema of a kind, as the API server reads it.
type judge struct {
	schema  *structuralschema.Structural
	openAPI validation.SchemaValidator
	rules   *cel.Validator
}

// judges are those of our kinds. To compile the rules takes a moment, and not all kinds occur.
var judges = func() map[string]func() judge {
	all := map[string]func() judge{}
	for _, w := range contract.Workloads() {
		all[w.Object.Kind] = judgeOf("freehold.dev_" + w.Object.Resource() + ".yaml")
	}
	for _, c := range contract.Configs() {
		all[c.Object.Kind] = judgeOf("freehold.dev_" + c.Object.Resource() + ".yaml")
	}
	return all
}()

func judgeOf(file string) func() judge {
	return sync.OnceValue(func() judge {
		j, err := readJudge(file)
		if err != nil {
			panic(err) // the file is a part of this program
		}
		return j
	})
}

func readJudge(file string) (judge, error) {
	text, err := crd.Files.ReadFile(file)
	if err != nil {
		return judge{}, fmt.Errorf("reading %s: %w", file, err)
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &definition); err != nil {
		return judge{}, fmt.Errorf("reading %s: %w", file, err)
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		definition.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil); err != nil {
		return judge{}, fmt.Errorf("converting %s: %w", file, err)
	}
	var j judge
	if j.schema, err = structuralschema.NewStructural(&props); err != nil {
		return judge{}, fmt.Errorf("converting %s: %w", file, err)
	}
	if j.openAPI, _, err = validation.NewSchemaValidator(&props); err != nil {
		return judge{}, fmt.Errorf("converting %s: %w", file, err)
	}
	j.rules = cel.NewValidator(j.schema, true, celconfig.PerCallLimit)
	return j, nil
}

// problems say what the API server refuses in an object, and what Freehold would not accept of it.
func (c *conversion) problems(made map[string]any, r run) []string {
	kind := text(made["kind"])
	judged, ours := judges[kind]
	if !ours {
		return nil
	}
	// A copy with the types of JSON, which defaults may be written into.
	data, err := json.Marshal(made)
	if err != nil {
		return []string{"it cannot be judged: " + err.Error()}
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return []string{"it cannot be judged: " + err.Error()}
	}
	var said []string
	named := map[string]bool{}
	for _, refused := range judged().refused(object) {
		said, named[refused.Field] = append(said, "the API server refuses it: "+refused.Error()), true
	}
	wrong, err := c.unaccepted(kind, data, r)
	if err != nil && len(said) == 0 {
		said = append(said, "the API server refuses it: "+err.Error())
	}
	for _, problem := range wrong {
		if !named[problem.Field] {
			said = append(said, "Freehold does not accept it: "+problem.String())
		}
	}
	slices.Sort(said)
	return slices.Compact(said)
}

// refused is what the API server finds wrong with an object, once it has its defaults.
func (j judge) refused(object map[string]any) field.ErrorList {
	defaulting.PruneNonNullableNullsWithoutDefaults(object, j.schema)
	defaulting.Default(object, j.schema)
	found := validation.ValidateCustomResource(nil, object, j.openAPI)
	found = append(found, listtype.ValidateListSetsAndMaps(nil, j.schema, object)...)
	if len(found) == 0 { // rules are for objects whose types are right
		found, _ = j.rules.Validate(context.Background(), nil, j.schema, object, nil, celconfig.RuntimeCELCostBudget)
	}
	return found
}

// unaccepted is what the operator would say of a spec: server or configuration. The error is for
// an object that has another form.
func (c *conversion) unaccepted(kind string, data []byte, r run) ([]podtemplate.Problem, error) {
	switch kind {
	case "MCPServer":
		server := &v1alpha1.MCPServer{}
		if err := json.Unmarshal(data, server); err != nil {
			return nil, fmt.Errorf("reading the %s: %w", kind, err)
		}
		return c.rendered(server, r), nil
	case "MCPRemoteProxy":
		proxy := &v1alpha1.MCPRemoteProxy{}
		if err := json.Unmarshal(data, proxy); err != nil {
			return nil, fmt.Errorf("reading the %s: %w", kind, err)
		}
		return c.rendered(proxy, r), nil
	}
	config := registry.Named(kind).New()
	if err := json.Unmarshal(data, config); err != nil {
		return nil, fmt.Errorf("reading the %s: %w", kind, err)
	}
	if err := registry.Named(kind).Check(config).Err; err != nil {
		return []podtemplate.Problem{{Field: "spec", Message: err.Error()}}, nil //nolint:nilerr // it is what is looked for
	}
	return nil, nil
}

// rendered is what is wrong with a server's content. Nothing is said of a configuration that the run does not have.
func (c *conversion) rendered(object kinds.Object, r run) []podtemplate.Problem {
	in := workload.Input{Object: object}
	if login := r.loginOf(c); login != nil {
		in.Configs = append(in.Configs, registry.Read(as[v1alpha1.MCPOIDCConfig](login))...)
	}
	if policies := r.named("MCPAuthzConfig", c); policies != nil {
		in.Configs = append(in.Configs, registry.Read(as[v1alpha1.MCPAuthzConfig](policies.main))...)
	}
	rendered := workload.Render(in, podtemplate.Release{RunnerImage: "runner"})
	return slices.DeleteFunc(rendered.Problems, func(p podtemplate.Problem) bool {
		return p.Field == "spec.oidcConfigRef" && r.loginOf(c) == nil || p.Field == "spec.authzConfigRef"
	})
}

// as reads an object that was made here; what has another form is said of that object.
func as[T any](object map[string]any) *T {
	read := new(T)
	if data, err := json.Marshal(object); err == nil {
		_ = json.Unmarshal(data, read) //nolint:errcheck // see above
	}
	return read
}
