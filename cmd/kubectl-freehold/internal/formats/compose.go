package formats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/sirupsen/logrus"

	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/conversion"
	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/launch"
)

func isCompose(document map[string]any) bool {
	services, is := document["services"].(map[string]any)
	if !is {
		return false
	}
	for _, value := range services {
		service, _ := value.(map[string]any)
		if service["image"] != nil || service["build"] != nil {
			return true
		}
	}
	return false
}

// ofMCP is how services name themselves that are MCP servers; a file has others beside them.
var ofMCP = regexp.MustCompile(`(?i)(^|[^a-z0-9])mcp([^a-z0-9]|$)`)

// compose reads the services of a compose file that are MCP servers.
func compose(file string, document map[string]any) ([]conversion.Entry, error) {
	logrus.SetOutput(io.Discard) // the library warns of what a file may leave out
	services, _ := document["services"].(map[string]any)
	var entries []conversion.Entry
	for _, name := range slices.Sorted(maps.Keys(services)) {
		// One by one: what cannot be read of one is no matter of the others.
		one := map[string]any{"services": map[string]any{name: settled("", services[name])}, "volumes": document["volumes"]}
		s, err := composed(file, name, one)
		if err != nil {
			entries = append(entries, conversion.Entry{Name: name, Format: ofCompose, File: file, Server: launch.Server{
				Local: "it cannot be read: " + err.Error(),
			}})
			continue
		}
		entries = append(entries, service(file, s))
	}
	return entries, nil
}

// variable is one of compose: ${X}, ${X:-default}, ${X-default}, ${X:?message} and $X.
var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:?[-?+][^}]*)?\}|\$([A-Za-z_][A-Za-z0-9_]*)`)

// unknownPort stands where a variable without a default does: no server listens there.
const unknownPort = 1

// settled has the defaults of variables in their place. Others stay, for who completes the object, but where a number
// belongs: of a port only that of the container matters.
func settled(key string, value any) any {
	switch v := value.(type) {
	case string:
		return variable.ReplaceAllStringFunc(v, func(found string) string {
			parts := variable.FindStringSubmatch(found)
			name, other := parts[1]+parts[3], parts[2]
			if at := strings.IndexByte(other, '-'); at >= 0 && at <= 1 {
				return other[at+1:]
			}
			if key == "ports" || key == "expose" {
				return strconv.Itoa(unknownPort)
			}
			return "${" + name + "}"
		})
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = settled(key, v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k := range v {
			below := k
			if key == "ports" {
				below = key
			}
			out[k] = settled(below, v[k])
		}
		return out
	}
	return value
}

const ofCompose = "a compose file"

// composed is one service, as compose itself reads it.
func composed(file, name string, document map[string]any) (types.ServiceConfig, error) {
	if document["volumes"] == nil {
		delete(document, "volumes")
	}
	project, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir: ".", ConfigFiles: []types.ConfigFile{{Filename: file, Config: document}}, Environment: types.Mapping{},
	}, func(o *loader.Options) {
		o.SkipInterpolation, o.SkipConsistencyCheck, o.SkipExtends, o.SkipInclude = true, true, true, true
		// No file of this computer is read but the one that was named.
		o.SkipResolveEnvironment, o.SkipResolveLabels, o.SkipNormalization, o.ResolvePaths = true, true, true, false
		o.SetProjectName("import", true)
	})
	if err != nil {
		return types.ServiceConfig{}, fmt.Errorf("reading the service: %w", err)
	}
	s, found := project.Services[name]
	if !found {
		return s, errors.New("it has a profile")
	}
	return s, nil
}

func service(file string, s types.ServiceConfig) conversion.Entry {
	e := conversion.Entry{Name: s.Name, Format: ofCompose, File: file}
	said := strings.Join(slices.Concat([]string{s.Name, s.Image, s.ContainerName}, s.Command, s.Entrypoint), " ")
	switch {
	case !ofMCP.MatchString(said):
		e.Local = "nothing says that it is an MCP server: its name, image and command do not have mcp in them"
		return e
	case s.Image == "":
		e.Local = "it is built on this computer: push the image to a registry, and write it as image"
		return e
	}
	e.Server = launch.Server{
		Image: s.Image, Command: s.Entrypoint, Args: s.Command, WorkingDir: s.WorkingDir, Env: map[string]string{},
	}
	for name, value := range s.Environment {
		if value == nil {
			e.Env[name] = "${" + name + "}"
		} else {
			e.Env[name] = *value
		}
	}
	e.User = userOf(s.User, &e)
	for _, volume := range s.Volumes {
		e.Mounts = append(e.Mounts, launch.Mount{Source: volume.Source, Target: volume.Target, ReadOnly: volume.ReadOnly})
	}
	e.Port = composePort(s)
	e.Transport = transportOf(e.Server, e.Port != 0 && !s.StdinOpen)
	for _, file := range s.EnvFiles {
		e.Notes = append(e.Notes, "env_file "+launch.Shown(file.Path)+": make a Secret of it (kubectl create secret generic "+
			"NAME --from-env-file=FILE), and name that in spec.envFrom")
	}
	for _, other := range slices.Sorted(maps.Keys(s.DependsOn)) {
		e.Notes = append(e.Notes, fmt.Sprintf("depends_on %s: a Service of that name has to be in the namespace", other))
	}
	if s.HealthCheck != nil && len(s.HealthCheck.Test) > 0 {
		e.Notes = append(e.Notes, "healthcheck: write a livenessProbe of container server in spec.podTemplate")
	}
	return e
}

func userOf(stated string, e *conversion.Entry) int64 {
	name, _, _ := strings.Cut(stated, ":")
	number, err := strconv.ParseInt(name, 10, 64)
	if err != nil && name != "" {
		e.Notes = append(e.Notes, "user "+stated+": write its number into spec.podTemplate.spec.securityContext.runAsUser")
	}
	return number
}

// composePort is where the container listens, 0 where the file does not say it.
func composePort(s types.ServiceConfig) int64 {
	for _, port := range s.Ports {
		if port.Target != unknownPort {
			return int64(port.Target)
		}
	}
	for _, port := range s.Expose {
		number, _ := strconv.ParseInt(strings.TrimSuffix(port, "/tcp"), 10, 64) //nolint:errcheck // 0 for a range
		return number
	}
	return 0
}

var (
	transportFlag      = regexp.MustCompile(`^(--transport|-t|--mode|--outputTransport)$`)
	transportVariables = []string{"MCP_TRANSPORT", "TRANSPORT", "TRANSPORT_TYPE", "MCP_TRANSPORT_TYPE", "MCP_MODE"}
)

// transportOf is what a server speaks, by what it is told; where that says nothing, by whether it listens.
func transportOf(s launch.Server, listens bool) string {
	said := ""
	words := slices.Concat(s.Command, s.Args)
	for i, word := range words {
		name, value, joined := strings.Cut(word, "=")
		switch {
		case transportFlag.MatchString(name) && joined:
			said = value
		case transportFlag.MatchString(word) && i+1 < len(words):
			said = words[i+1]
		}
	}
	for _, name := range transportVariables {
		if value := s.Env[name]; said == "" && value != "" {
			said = value
		}
	}
	switch strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(said)) {
	case "stdio":
		return "stdio"
	case "sse":
		return "sse"
	case "http", "streamablehttp", "streamable":
		return "streamable-http"
	}
	if listens {
		return "streamable-http"
	}
	return "stdio"
}
