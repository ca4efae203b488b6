package formats

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/conversion"
	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/launch"
)

// serverJSON is a description of the MCP registry, in both of its schemas
// (https://github.com/modelcontextprotocol/registry/blob/main/docs/reference/server-json/generic-server-json.md).
type serverJSON struct {
	Name     string    `json:"name"`
	Packages []pkg     `json:"packages"`
	Remotes  []toThere `json:"remotes"`
}

type pkg struct {
	RegistryType    string  `json:"registryType"`
	RegistryTypeOld string  `json:"registry_type"`
	RegistryName    string  `json:"registry_name"`
	Identifier      string  `json:"identifier"`
	Name            string  `json:"name"`
	Version         string  `json:"version"`
	Transport       toThere `json:"transport"`
	RuntimeArgs     []input `json:"runtimeArguments"`
	RuntimeArgsOld  []input `json:"runtime_arguments"`
	PackageArgs     []input `json:"packageArguments"`
	PackageArgsOld  []input `json:"package_arguments"`
	Variables       []input `json:"environmentVariables"`
	VariablesOld    []input `json:"environment_variables"`
}

type toThere struct {
	Type    string  `json:"type"`
	TypeOld string  `json:"transport_type"`
	URL     string  `json:"url"`
	Headers []input `json:"headers"`
}

// input is an argument, a variable or a header.
type input struct {
	Type          string           `json:"type"`
	Name          string           `json:"name"`
	Value         string           `json:"value"`
	ValueHint     string           `json:"valueHint"`
	Default       string           `json:"default"`
	Description   string           `json:"description"`
	Required      bool             `json:"isRequired"`
	RequiredOld   bool             `json:"is_required"`
	RequiredOlder bool             `json:"required"`
	Secret        bool             `json:"isSecret"`
	SecretOld     bool             `json:"is_secret"`
	Variables     map[string]input `json:"variables"`
}

func (i input) required() bool { return i.Required || i.RequiredOld || i.RequiredOlder }
func (i input) secret() bool   { return i.Secret || i.SecretOld }

func isServerJSON(document map[string]any) bool {
	schema, _ := document["$schema"].(string)
	_, packages := document["packages"].([]any)
	_, remotes := document["remotes"].([]any)
	inner, _ := document["server"].(map[string]any)
	wrapped := text(inner["name"]) != "" && (inner["packages"] != nil || inner["remotes"] != nil)
	return wrapped || strings.Contains(schema, "server.schema.json") ||
		text(document["name"]) != "" && (packages || remotes)
}

func readServerJSON(file string, document map[string]any) ([]conversion.Entry, error) {
	if inner, wrapped := document["server"].(map[string]any); wrapped { // as the registry's API answers
		document = inner
	}
	var s serverJSON
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(document, &s); err != nil {
		return nil, fmt.Errorf("reading a description of the MCP registry: %w", err)
	}
	e := conversion.Entry{Name: s.Name, Format: "a description of the MCP registry", File: file}
	for _, of := range []string{"oci", "npm", "pypi"} {
		for _, p := range s.Packages {
			if p.registry() == of {
				p.into(&e, of)
				oneOf(&e, len(s.Packages)+len(s.Remotes))
				return []conversion.Entry{e}, nil
			}
		}
	}
	if len(s.Remotes) > 0 {
		remote := s.Remotes[0]
		oneOf(&e, len(s.Remotes))
		e.URL, e.SSE = template(remote.URL, nil), cmp.Or(remote.Type, remote.TypeOld) == "sse"
		e.Headers = map[string]string{}
		for _, header := range remote.Headers {
			if value, needed := header.needed(&e, "spec.headers"); needed {
				e.Headers[header.Name] = value
			}
		}
		return []conversion.Entry{e}, nil
	}
	e.Local = "it has neither a package of oci, npm or pypi nor a remote"
	return []conversion.Entry{e}, nil
}

func (p pkg) registry() string {
	switch of := strings.ToLower(cmp.Or(p.RegistryType, p.RegistryTypeOld, p.RegistryName)); of {
	case "docker", "docker-hub":
		return "oci"
	default:
		return of
	}
}

// oneOf says that a description has more ways than the one that was taken.
func oneOf(e *conversion.Entry, ways int) {
	if ways > 1 {
		e.Notes = append(e.Notes, fmt.Sprintf("it is one of the %d packages and remotes of the description: of these import "+
			"takes oci, then npm, pypi, and a remote", ways))
	}
}

// into is the package as a server.
func (p pkg) into(e *conversion.Entry, registry string) {
	name := cmp.Or(p.Identifier, p.Name)
	before := arguments(slices.Concat(p.RuntimeArgs, p.RuntimeArgsOld))
	after := arguments(slices.Concat(p.PackageArgs, p.PackageArgsOld))
	versioned := func(separator string) string {
		if p.Version == "" || strings.Contains(strings.TrimPrefix(name, "@"), separator) {
			return name
		}
		return name + separator + p.Version
	}
	switch registry {
	case "oci":
		image := name
		if last := image[strings.LastIndex(image, "/")+1:]; p.Version != "" && !strings.ContainsAny(last, ":@") {
			image += ":" + p.Version
		}
		e.Server = launch.Of("docker", slices.Concat([]string{"run"}, before, []string{image}, after))
	case "npm":
		e.Server = launch.Of("npx", slices.Concat(before, []string{versioned("@")}, after))
	default:
		e.Server = launch.Of("uvx", slices.Concat(before, []string{versioned("==")}, after))
	}
	variables := map[string]string{}
	for _, variable := range slices.Concat(p.Variables, p.VariablesOld) {
		if value, needed := variable.needed(e, "spec.env"); needed {
			variables[variable.Name] = value
		}
	}
	e.Server = e.With(variables)
	if kind := cmp.Or(p.Transport.Type, p.Transport.TypeOld); kind != "" && kind != "stdio" {
		e.Transport = kind
		if at, err := url.Parse(template(p.Transport.URL, nil)); err == nil {
			e.Path = at.Path
			e.Port, _ = strconv.ParseInt(at.Port(), 10, 64) //nolint:errcheck // 0 where there is none
		}
	}
}

// needed is the value of a variable or a header, if there is one or has to be. One that may be left out is told.
func (i input) needed(e *conversion.Entry, field string) (value string, needed bool) {
	value = cmp.Or(i.Value, i.Default)
	switch {
	case value != "" && !i.secret():
		return template(value, i.Variables), true
	case value != "":
		return template(value, i.Variables) + "${" + i.Name + "}", true
	case i.required() || i.secret() && i.Description == "":
		return "${" + i.Name + "}", true
	}
	e.Notes = append(e.Notes, fmt.Sprintf("%s may have %s: %s", field, i.Name,
		cmp.Or(i.Description, "the description does not say what for")))
	return "", false
}

// arguments are words of a command line.
func arguments(inputs []input) (words []string) {
	for _, i := range inputs {
		value := cmp.Or(i.Value, i.Default)
		if i.Type == "named" && i.Name != "" {
			if !i.required() && value == "" {
				continue
			}
			words = append(words, i.Name)
		}
		switch {
		case value != "":
			words = append(words, template(value, i.Variables))
		case i.required():
			words = append(words, "${"+cmp.Or(i.ValueHint, strings.TrimLeft(i.Name, "-"), "VALUE")+"}")
		}
	}
	return words
}

// template puts what is known in the place of {variables}, and ${variables} of a client in that of others.
func template(value string, known map[string]input) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(value, "{")
		name, after, closed := strings.Cut(rest, "}")
		out.WriteString(before)
		if !found || !closed {
			out.WriteString(strings.TrimPrefix(value, before))
			return out.String()
		}
		of := known[name]
		if strings.HasSuffix(before, "$") { // a variable already
			out.WriteString("{" + name + "}")
		} else if text := cmp.Or(of.Value, of.Default); text != "" && !of.secret() {
			out.WriteString(text)
		} else {
			out.WriteString("${" + name + "}")
		}
		value = after
	}
}
