package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const (
	apiPage = "docs/api.md"
	crds    = "config/crd/*.yaml"
)

// apiPreface begins the reference of the API.
const apiPreface = `# API reference

Generated from the CRDs by ` + "`make generate`" + `. ` + "`kubectl explain mcp.spec --recursive`" +
	` shows the same for the version that your cluster
has, and [errors.md](errors.md) what the API server refuses, and what to write instead.

`

// fromKubernetes are types that Kubernetes documents.
var fromKubernetes = map[string]string{
	"env":                  "[EnvVar](https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#environment-variables)",
	"envFrom":              "[EnvFromSource](https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#environment-variables)",
	"volumes":              "[Volume](https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/volume/)",
	"volumeMounts":         "[VolumeMount](https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#volumes-1)",
	"imagePullSecrets":     "[LocalObjectReference](https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/local-object-reference/)",
	"conditions":           "[Condition](https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.36/#condition-v1-meta)",
	"volumeClaimTemplates": "[PersistentVolumeClaim](https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/persistent-volume-claim-v1/)",
	"podSelector":          "[LabelSelector](https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/label-selector/)",
	"namespaceSelector":    "[LabelSelector](https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/label-selector/)",
	"podTemplate":          "[PodTemplateSpec](https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-template-v1/#PodTemplateSpec)",
}

// api writes the reference of all kinds.
func api() error {
	files, err := filepath.Glob(crds)
	if err != nil || len(files) == 0 {
		return fmt.Errorf("there are %d CRDs at %s: %w", len(files), crds, err)
	}
	var page strings.Builder
	page.WriteString(apiPreface)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		for i := range crd.Spec.Versions {
			kindPage(&page, crd.Spec, &crd.Spec.Versions[i])
		}
	}
	return write(apiPage, strings.TrimRight(page.String(), "\n")+"\n")
}

func kindPage(
	page *strings.Builder, spec apiextensionsv1.CustomResourceDefinitionSpec,
	version *apiextensionsv1.CustomResourceDefinitionVersion,
) {
	schema := version.Schema.OpenAPIV3Schema
	fmt.Fprintf(page, "## %s\n\n`%s/%s`, short name `%s`\n\n%s\n\n", spec.Names.Kind, spec.Group, version.Name,
		strings.Join(spec.Names.ShortNames, "`, `"), prose(schema.Description))
	for _, part := range []string{"spec", "status"} {
		fields := schema.Properties[part]
		fmt.Fprintf(page, "| field of %s | type | |\n| --- | --- | --- |\n", part)
		rows(page, part, &fields)
		page.WriteString("\n")
	}
}

// rows are a line for each field below a schema, those that are required first.
func rows(page *strings.Builder, path string, schema *apiextensionsv1.JSONSchemaProps) {
	names := slices.SortedFunc(maps.Keys(schema.Properties), func(a, b string) int {
		return cmp.Or(cmp.Compare(optional(schema, a), optional(schema, b)), cmp.Compare(a, b))
	})
	for _, name := range names {
		field := schema.Properties[name]
		fmt.Fprintf(page, "| `%s.%s` | %s | %s%s%s |\n", path, name, typeOf(name, &field), prose(field.Description),
			needed(schema, name), fallback(&field))
		below, at := &field, path+"."+name
		if field.Items != nil {
			below, at = field.Items.Schema, at+"[]"
		}
		if _, known := fromKubernetes[name]; !known {
			rows(page, at, below)
		}
	}
}

func optional(schema *apiextensionsv1.JSONSchemaProps, name string) int {
	if slices.Contains(schema.Required, name) {
		return 0
	}
	return 1
}

func needed(schema *apiextensionsv1.JSONSchemaProps, name string) string {
	if optional(schema, name) == 0 {
		return " **Required.**"
	}
	return ""
}

// fallback is the default, where the description does not say it.
func fallback(field *apiextensionsv1.JSONSchemaProps) string {
	if field.Default == nil || strings.Contains(field.Description, "default is") {
		return ""
	}
	var value any
	if json.Unmarshal(field.Default.Raw, &value) != nil || fmt.Sprint(value) == "map[]" {
		return ""
	}
	return " Default: `" + string(field.Default.Raw) + "`."
}

func typeOf(name string, field *apiextensionsv1.JSONSchemaProps) string {
	known, kubernetes := fromKubernetes[name]
	switch {
	case kubernetes && field.Type == "array":
		return "list of " + known
	case kubernetes:
		return known
	case len(field.Enum) > 0:
		var values []string
		for _, value := range field.Enum {
			values = append(values, "`"+strings.Trim(string(value.Raw), `"`)+"`")
		}
		return strings.Join(values, ", ")
	case field.XIntOrString:
		return "quantity"
	case field.Type == "array":
		return "list of " + typeOf("", field.Items.Schema)
	case field.Type == "object" && field.AdditionalProperties != nil:
		return "map to " + typeOf("", field.AdditionalProperties.Schema)
	case field.Format == "date-time":
		return "time"
	}
	return field.Type
}

// prose is a description in one cell of a table.
func prose(description string) string {
	text := strings.Join(strings.Fields(description), " ")
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text)
}
