package conversion

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// What an image says completes a server, what is stated wins, and a comment names what came from where.
func TestWhatAnImageSaysOfAServer(t *testing.T) {
	const stdio = "transport: stdio"
	whole := Image{
		Digest: "sha256:1", Entrypoint: []string{"/server"}, Command: []string{"--all"}, User: "1001:1001",
		Env:   []string{"PATH=/bin", "NODE_VERSION=24", "MODE=fast", "KEY=ghp_canary0canary1canary2canary3canary4"},
		Ports: []int32{8443},
	}
	bare := Image{Digest: "sha256:2", Command: []string{"node", "a.js"}}
	for name, tc := range map[string]struct {
		spec        string
		image       Image
		err         error
		want, not   string
		open, asked bool
	}{
		"entrypoint": {spec: stdio, image: whole, want: "command:\n- /server\n", not: "PATH"},
		"arguments":  {spec: stdio, image: whole, want: "args:\n- --all\n", not: "NODE_VERSION"},
		"stated arguments": {
			spec:  stdio + "\nargs: [--one]",
			image: whole, want: "args:\n- --one\n", not: "--all",
		},
		"a command alone": {spec: stdio, image: bare, want: "command:\n- node\n", not: "/server"},
		"no entrypoint, arguments stated": {
			spec:  stdio + "\nargs: [x, z]",
			image: bare, want: "args:\n- z\ncommand:\n- x\n",
		},
		"variables": {
			spec:  stdio,
			image: whole, want: "- name: MODE\n  value: fast\n", not: "canary",
		},
		"stated variables": {
			spec:  stdio + "\nenv: [{name: MODE, value: slow}]",
			image: whole, want: "value: slow", not: "fast",
		},
		"stated command": {
			spec:  stdio + "\ncommand: [/mine]",
			image: whole, want: "command:\n- /mine\n", not: "/server",
		},
		"root": {spec: stdio, image: bare, want: "runAsUser: 1000"},
		"a name": {
			spec:  stdio,
			image: Image{Entrypoint: []string{"a"}, User: "node"}, want: "runAsUser: 1000",
		},
		"a number": {spec: stdio, image: whole, not: "runAsUser"},
		"a stated user": {
			spec:  stdio + "\npodTemplate: {spec: {securityContext: {runAsUser: 7}}}",
			image: bare, want: "runAsUser: 7", not: "1000",
		},
		"port":          {spec: "transport: streamable-http", image: whole, want: "port: 8443", not: "command"},
		"a stated port": {spec: "transport: streamable-http\nport: 9", image: whole, want: "port: 9\n", not: "8443"},
		"not to be had": {spec: stdio, err: errors.New("no such image"), not: "command", open: true},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		if err := yaml.Unmarshal([]byte("apiVersion: mcp.x-k8s.io/v1alpha1\nkind: MCPServer\nmetadata: {name: a}\n"),
			&u.Object); err != nil {
			t.Fatal(err)
		}
		c, err := begin(u)
		if err != nil {
			t.Fatal(err)
		}
		spec := map[string]any{}
		if err := yaml.Unmarshal([]byte("image: example.com/a:1\n"+tc.spec), &spec); err != nil {
			t.Fatal(err)
		}
		c.main["spec"] = spec
		r := run{c}
		r.images(t.Context(), func(context.Context, string) (Image, error) { return tc.image, tc.err })
		c.hide(false)
		made, err := yaml.Marshal(c.main["spec"])
		if err != nil {
			t.Fatal(err)
		}
		if got := string(made); !strings.Contains(got, tc.want) || tc.not != "" && strings.Contains(got, tc.not) {
			t.Errorf("%s: got\n%s\nwith %v", name, got, c.remarks)
		}
		if tc.err != nil && !strings.Contains(strings.Join(c.remarks, "\n"), "spec.command, which stdio needs") {
			t.Errorf("%s: nothing says what is missing: %v", name, c.remarks)
		}
	}
}

func TestSecretsAreKnownByNameAndShape(t *testing.T) {
	for _, secret := range []string{
		"API_KEY=a1", "GITHUB_TOKEN=x", "X-Api-Key=v", "Authorization=v", "db_password=123456",
		"PRIVATE_KEY=v", "A=ghp_0123456789",
		"A=Bearer abcdefgh", "A=postgres://me:pw@db/x", "A=eyJhbGciOi", "A=9f8b7c6d5e4f3a2b1c0d9e8f", "CLIENT_SECRET=v",
	} {
		if name, value, _ := strings.Cut(secret, "="); !isSecret(name, value) {
			t.Errorf("%s is printed", secret)
		}
	}
	for _, plain := range []string{
		"MAX_TOKENS=100", "OUTPUT_TOKENS=4096", "A=git+ssh://git@example.com/x", "TOKEN_FILE=/x", "API_KEY=",
		"SECRET_NAME=x", "A=https://example.com/mcp", "LEVEL=info", "KEYBOARD=us",
		"A=/usr/local/share/some/long/path/to/a/file1", "PORT=8000", "AUTH_TOKEN_URL=https://a", "USE_SECRETS=true",
	} {
		if name, value, _ := strings.Cut(plain, "="); isSecret(name, value) {
			t.Errorf("%s is hidden", plain)
		}
	}
}
