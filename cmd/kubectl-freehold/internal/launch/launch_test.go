package launch

import (
	"strings"
	"testing"
)

// line is what a command line starts, in one line.
func line(s Server) string {
	if s.Local != "" {
		return "local"
	}
	if s.URL != "" {
		said := s.URL
		if s.SSE {
			said += " sse"
		}
		for name, value := range s.Headers {
			said += " " + name + "=" + value
		}
		return said
	}
	said := s.Image + " | " + strings.Join(s.Command, " ") + " | " + strings.Join(s.Args, " ")
	for _, m := range s.Mounts {
		said += " | " + m.Source + ">" + m.Target
		if m.ReadOnly {
			said += ":ro"
		}
	}
	return said
}

func TestOf(t *testing.T) {
	node, uv := nodeImage+" | npx | ", uvImage+" | uvx | "
	for words, want := range map[string]string{
		"npx -y a":                                     node + "-y a",
		"npx a@1 --flag x":                             node + "-y a@1 --flag x",
		"/opt/bin/npx.cmd --yes @s/a@1":                node + "--yes @s/a@1",
		`C:\node\npx.exe -y a`:                         node + "-y a",
		"cmd /c npx -y a":                              node + "-y a",
		"cmd.exe /C npx -y a":                          node + "-y a",
		"npm exec -y a":                                node + "-y a",
		"yarn dlx a":                                   node + "-y a",
		"bunx -y a":                                    node + "-y a",
		"env A=1 npx -y a":                             node + "-y a",
		"npx -y -p a b --c":                            node + "-y -p a b --c",
		"npx ./here":                                   "local",
		"npx":                                          "local",
		"uvx a==1":                                     uv + "a==1",
		"uvx --python 3.12 a --flag":                   uv + "--python 3.12 a --flag",
		"uv tool run a":                                uv + "a",
		"pipx run a":                                   uv + "a",
		"uv run --with fastmcp fastmcp run x":          uvImage + " | uv | run --with fastmcp fastmcp run x",
		"uv run --with fastmcp server.py":              "local",
		"uv --directory /x run y":                      "local",
		"uvx --from ./here a":                          "local",
		"docker run -i --rm mcp/a":                     "mcp/a |  | ",
		"docker run -it mcp/a stdio":                   "mcp/a |  | stdio",
		"docker container run -i mcp/a":                "mcp/a |  | ",
		"podman run -i --entrypoint=/x mcp/a y":        "mcp/a | /x | y",
		"docker run -v /a:/b:ro,z -v n:/c -v /d mcp/a": "mcp/a |  |  | /a>/b:ro | n>/c | >/d",

		"docker run --mount type=bind,src=/a,dst=/b,readonly mcp/a":   "mcp/a |  |  | /a>/b:ro",
		"docker run --unknown=1 --cap-drop ALL -p 1:2 -m 1g mcp/a -x": "mcp/a |  | -x",

		"docker mcp gateway run":                                   "local",
		"docker build .":                                           "local",
		"docker run":                                               "local",
		"npx -y mcp-remote@latest https://a/mcp":                   "https://a/mcp",
		"npx mcp-remote https://a/sse --transport sse-only":        "https://a/sse sse",
		"npx mcp-remote https://a 8080 --header A:b":               "https://a A=b",
		"npx -y supergateway --sse https://a/sse --oauth2Bearer t": "https://a/sse sse Authorization=Bearer t",
		"npx -y supergateway --streamableHttp https://a/mcp":       "https://a/mcp",
		"uvx mcp-proxy https://a/sse -H X y":                       "https://a/sse sse X=y",
		"uvx mcp-proxy --transport streamablehttp https://a/mcp":   "https://a/mcp",
		"npx -p mcp-remote mcp-remote https://a --header A:b":      "https://a A=b",
		"A=1 npx -y a":                      node + "-y a",
		"mcp-proxy --port 1 uvx a":          uv + "a",
		"mcp-proxy":                         "local",
		"python -m server":                  "local",
		"/Users/me/server":                  "local",
		"cmd /c cmd /c cmd /c cmd /c npx a": "local",
		`docker run -v C:\x:/b mcp/a`:       `mcp/a |  |  | C:\x>/b`,
	} {
		list := strings.Split(words, " ")
		if got := line(Of(list[0], list[1:])); got != want {
			t.Errorf("%s: got %q, want %q", words, got, want)
		}
	}
	if got := line(Of("npx", []string{"supergateway", "--stdio", "npx -y a 'b c'"})); got != node+"-y a b c" {
		t.Errorf("what is behind a bridge: %q", got)
	}
}

func TestWhatIsSaidOfAPackage(t *testing.T) {
	for words, unpinned := range map[string]bool{
		"npx -y a": true, "npx -y a@latest": true, "npx -y @s/a": true, "npx -y @s/a@1": false, "npx a@1": false,
		"uvx a": true, "uvx a==1": false,
	} {
		list := strings.Split(words, " ")
		s := Of(list[0], list[1:])
		if len(s.Notes) != 1 || strings.Contains(s.Notes[0], "newest") != unpinned || s.User != user || !s.Runner {
			t.Errorf("%s: %+v", words, s)
		}
	}
}

func TestVariables(t *testing.T) {
	s := Of("docker", []string{"run", "-e", "A", "-e", "B=1", "-e", "C=", "x"}).
		With(map[string]string{"A": "given", "B": "2"})
	if s.Env["A"] != "given" || s.Env["B"] != "1" || s.Env["C"] != "" || len(s.Env) != 3 {
		t.Errorf("the variables are %v", s.Env)
	}
}

// Whatever a file holds, nothing panics.
func FuzzOf(f *testing.F) {
	for _, words := range []string{
		"docker run -v : -e =  x", "npx mcp-remote https://", "cmd /c", "uv run --with", "env A=",
		"npx supergateway --stdio '",
		"docker run --mount ,= x", "npx -p", "uvx --from",
	} {
		f.Add(words)
	}
	f.Fuzz(func(t *testing.T, words string) {
		list := strings.Split(words, " ")
		if s := Of(list[0], list[1:]); s.Local == "" && s.Image == "" && s.URL == "" {
			t.Errorf("%q: neither an image nor a URL, and no reason", words)
		}
	})
}
