//go:build schema

// Command schema prints the OpenAPI v2 definitions of the API types, which applyconfiguration-gen needs to generate
// Extract functions and a real parser. hack/generate.sh generates the package bin/schema before it runs this program,
// hence the build tag.
package main

import (
	"encoding/json"
	"log"
	"os"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	generated "github.com/freehold-dev/freehold/bin/schema"
)

func main() {
	ref := func(name string) spec.Ref {
		return spec.MustCreateRef("#/definitions/" + util.ToRESTFriendlyName(name))
	}
	definitions := spec.Definitions{}
	for name, def := range generated.GetOpenAPIDefinitions(ref) {
		if v2, ok := def.Schema.Extensions[common.ExtensionV2Schema]; ok {
			def.Schema = v2.(spec.Schema)
		}
		definitions[util.ToRESTFriendlyName(name)] = def.Schema
	}
	swagger := spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger:     "2.0",
		Info:        &spec.Info{InfoProps: spec.InfoProps{Title: "freehold", Version: "v1alpha1"}},
		Paths:       &spec.Paths{},
		Definitions: definitions,
	}}
	if err := json.NewEncoder(os.Stdout).Encode(swagger); err != nil {
		log.Fatal(err)
	}
}
