package runconfig

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func sample() RunConfig {
	return RunConfig{
		Version:  Version,
		Server:   Server{Namespace: "team-a", Name: "echo", UID: "1111"},
		Workload: Workload{Generation: 7, Hash: "abc"},
		Backend: Backend{
			Image:       "registry.example.com/echo:1",
			Args:        []string{"", "<&>"},
			Env:         []corev1.EnvVar{{Name: "LEVEL", Value: "debug"}},
			Port:        8080,
			Path:        "/mcp",
			Transport:   "streamable-http",
			Resources:   Resources{Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}},
			PodTemplate: json.RawMessage(`{"metadata":{"labels":{"a":"<b>"}},"spec":{"priority":12345678901234567890}}`),
			RestartedAt: "2026-05-06T07:08:09Z",
		},
		Proxy:       Proxy{Port: 8000, Path: "/mcp", AllowedOrigins: []string{"https://a.example.com"}},
		NotEnforced: []string{"spec.authzConfig"},
		Rendering:   Rendering{Proxy: "def", Backend: "fed"},
	}
}

func TestDecodeReadsWhatEncodeWrote(t *testing.T) {
	for name, want := range map[string]RunConfig{
		"everything": sample(),
		"little": {
			Version:   Version,
			Server:    Server{Namespace: "a", Name: "b", UID: "c"},
			Workload:  Workload{Generation: 1, Hash: "x"},
			Backend:   Backend{Image: "i", Port: 1, Path: "/", Transport: "stdio"},
			Proxy:     Proxy{Port: 65535, Path: "/"},
			Rendering: Rendering{Proxy: "p", Backend: "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := want.Encode()
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(data)
			if err != nil {
				t.Fatalf("%v\n%s", err, data)
			}
			again, err := got.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("config (-written +read):\n%s", diff)
			}
			if diff := cmp.Diff(string(data), string(again)); diff != "" {
				t.Errorf("bytes (-first +second):\n%s", diff)
			}
		})
	}
}

func TestEqualConfigsHaveEqualBytes(t *testing.T) {
	want, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*RunConfig){
		"order and spaces of the overlay": func(c *RunConfig) {
			c.Backend.PodTemplate = json.RawMessage(
				` { "spec": {"priority": 12345678901234567890}, "metadata": {"labels": {"a": "\u003cb>"}} } `)
		},
		"spelling of a quantity": func(c *RunConfig) {
			c.Backend.Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("1024Mi")}
		},
		"empty lists": func(c *RunConfig) {
			c.Backend.Command, c.Backend.Volumes = []string{}, []corev1.Volume{}
			c.Backend.Resources.Requests = corev1.ResourceList{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := sample()
			edit(&run)
			got, err := run.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeIsStrict(t *testing.T) {
	data, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)
	for name, tc := range map[string]struct{ data, want string }{
		"empty":               {"", "run config: empty"},
		"white space":         {" \n", "run config: empty"},
		"cut short":           {good[:200], "run config: unexpected end of JSON input"},
		"not JSON":            {"version: v1", "run config: invalid character 'v' looking for beginning of value"},
		"null":                {"null", "run config: version: missing"},
		"more than one value": {good + "{}", "run config: invalid character '{' after top-level value"},
		"no version":          {strings.Replace(good, `"version": "v1",`, "", 1), "run config: version: missing"},
		"another version":     {`{"version":"v2","new":1}`, `run config: version: is "v2", this runner reads "v1"`},
		"unknown field": {
			strings.Replace(good, `"server": {`, `"server": {"x": 1,`, 1),
			`run config: unknown field "server.x"`,
		},
		"another case": {
			strings.Replace(good, `"rendering"`, `"Rendering"`, 1),
			`run config: unknown field "Rendering"`,
		},
		"given twice": {
			strings.Replace(good, `"port": 8080`, `"port": 8080, "port": 1`, 1),
			`run config: duplicate field "backend.port"`,
		},
		"wrong type": {
			strings.Replace(good, `"port": 8080`, `"port": "8080"`, 1),
			"run config: backend.port: string where int32 belongs",
		},
		"no such port": {
			strings.Replace(good, `"port": 8080`, `"port": 65536`, 1),
			"run config: backend.port: 65536 is not a port",
		},
		"no such time": {
			strings.Replace(good, "2026-05-06T", "yesterday", 1),
			`run config: backend.restartedAt: "yesterday07:08:09Z" is not a time of RFC 3339`,
		},
		"zero generation": {
			strings.Replace(good, `"generation": 7`, `"generation": 0`, 1),
			"run config: workload.generation: 0 is not 1 or more",
		},
		"negative generation": {
			strings.Replace(good, `"generation": 7`, `"generation": -7`, 1),
			"run config: workload.generation: -7 is not 1 or more",
		},
		"nothing in it": {
			`{"version":"v1"}`,
			"run config: server.namespace: missing; server.name: missing; server.uid: missing; " +
				"workload.generation: 0 is not 1 or more; workload.hash: missing; backend.image: missing; backend.port: 0 is not " +
				"a port; " +
				"backend.path: missing; backend.transport: missing; proxy.port: 0 is not a port; proxy.path: missing; " +
				"rendering.proxy: missing; rendering.backend: missing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode([]byte(tc.data))
			if err == nil {
				t.Fatal("decoded")
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEncodeRefusesAnOverlayThatIsNotJSON(t *testing.T) {
	for _, raw := range []string{"{", "a: b", "{}{}"} {
		run := sample()
		run.Backend.PodTemplate = json.RawMessage(raw)
		if data, err := run.Encode(); err == nil {
			t.Errorf("%q was encoded: %s", raw, data)
		}
		if _, err := run.ContentHash(); err == nil {
			t.Errorf("%q has a hash", raw)
		}
	}
}

func TestVerifyHoldsTheContentAgainstItsMark(t *testing.T) {
	run := sample()
	hash, err := run.ContentHash()
	if err != nil {
		t.Fatal(err)
	}
	run.Workload = Workload{Generation: 9, Hash: hash}
	if err := run.Verify(); err != nil {
		t.Errorf("own hash: %v", err)
	}
	run.Backend.Image += "x"
	if err := run.Verify(); err == nil || !strings.Contains(err.Error(), hash) {
		t.Errorf("other content: %v, want an error with both hashes", err)
	}
}

// The hash is written into objects: if it changes for the same content, every server restarts once.
func TestContentHashStaysFromReleaseToRelease(t *testing.T) {
	const want = "ef090b6f"
	got, err := sample().ContentHash()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 64 || !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s…", got, want)
	}
}
