//go:build clients

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// patience is how long a client may take, which is seconds where the machine has nothing else to do.
const patience = 3 * time.Minute

// client is a client of others.
type client struct {
	name, version string
	// calls means that it calls a tool without a model, short that it takes no long argument.
	calls, short bool
	ask          func(context.Context, endpoint) string
}

// endpoint is what a client is told, and home a folder of its own.
type endpoint struct {
	url, token, ca, home string
	bytes                int
	more                 []string // of the environment
}

// clientsIn are the clients that are installed in a folder, and the SDK that this module has.
func clientsIn(t *testing.T, folder string) []client {
	t.Helper()
	modules := filepath.Join(folder, "node_modules")
	version := func(name string) string {
		data, err := os.ReadFile(filepath.Join(modules, name, "package.json"))
		var read struct{ Version string }
		if err == nil {
			err = json.Unmarshal(data, &read)
		}
		if err != nil {
			t.Fatalf("%s is missing, run make clients: %v", name, err)
		}
		return read.Version
	}
	in := func(name string) string { return filepath.Join(modules, ".bin", name) }
	claude, node := filepath.Join(modules, "@anthropic-ai/claude-code-linux-x64/claude"), in("node")
	typescript := func(sdk string) func(context.Context, endpoint) string {
		return func(ctx context.Context, e endpoint) string {
			return e.run(ctx, "", node, filepath.Join(folder, "ask.mjs"), sdk, e.url, e.token, strconv.Itoa(e.bytes))
		}
	}
	return []client{
		{"Claude Code", version("@anthropic-ai/claude-code"), false, false, func(ctx context.Context, e endpoint) string {
			e.run(ctx, "", claude, slices.Concat([]string{"mcp", "add", "--transport", "http", "echo", e.url},
				e.header("--header"))...)
			return line(e.run(ctx, "", claude, "mcp", "list"), "echo: ")
		}},
		{"Gemini CLI", version("@google/gemini-cli"), false, false, func(ctx context.Context, e endpoint) string {
			e.run(ctx, "", node, slices.Concat([]string{in("gemini"), "mcp", "add", "-s", "user", "--transport", "http"},
				e.header("-H"), []string{"echo", e.url})...)
			return line(e.run(ctx, "", node, in("gemini"), "mcp", "list"), "echo: ")
		}},
		{"Codex CLI", version("@openai/codex"), false, false, func(ctx context.Context, e endpoint) string {
			config := fmt.Sprintf("[mcp_servers.echo]\nurl = %q\n", e.url)
			if e.token != "" {
				config += "bearer_token_env_var = \"FREEHOLD_TOKEN\"\n"
			}
			if os.Mkdir(filepath.Join(e.home, ".codex"), 0o700) != nil ||
				os.WriteFile(filepath.Join(e.home, ".codex", "config.toml"), []byte(config), 0o600) != nil {
				return "no config"
			}
			return line(e.run(ctx, "", node, in("codex"), "mcp", "list"), "echo ")
		}},
		{
			"Inspector CLI", version("@modelcontextprotocol/inspector"), true, true,
			func(ctx context.Context, e endpoint) string {
				return e.run(ctx, "", node, slices.Concat([]string{
					in("mcp-inspector"), "--cli", e.url, "--transport", "http",
					"--method", "tools/call", "--tool-name", "say", "--tool-arg", "words=a", "--format", "json",
					"--stored-auth-only",
				}, e.header("--header"))...)
			},
		},
		{"mcp-remote", version("mcp-remote"), true, false, func(ctx context.Context, e endpoint) string {
			return e.pipe(ctx, node, slices.Concat([]string{in("mcp-remote"), e.url}, e.header("--header"))...)
		}},
		{"Copilot CLI", version("@github/copilot"), true, true, func(ctx context.Context, e endpoint) string {
			return e.copilot(ctx, node, filepath.Join(modules, "@github/copilot/npm-loader.js"))
		}},
		{"TypeScript SDK 1", version("@modelcontextprotocol/sdk"), true, false, typescript("v1")},
		{"TypeScript SDK 2", version("@modelcontextprotocol/client"), true, false, typescript("v2")},
		{"Go SDK", moduleVersion(t), true, false, askGo},
	}
}

// moduleVersion is that of the Go SDK.
func moduleVersion(t *testing.T) string {
	t.Helper()
	built, _ := debug.ReadBuildInfo()
	for _, module := range built.Deps {
		if module.Path == "github.com/modelcontextprotocol/go-sdk" {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	t.Fatal("the Go SDK is no dependency")
	return ""
}

// header is the flag of a client with the token, if there is one.
func (e endpoint) header(flag string) []string {
	if e.token == "" {
		return nil
	}
	return []string{flag, "Authorization: Bearer " + e.token}
}

func (e endpoint) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = e.home
	command.Env = append([]string{
		"HOME=" + e.home, "PATH=" + filepath.Dir(name) + ":" + os.Getenv("PATH"), "NODE_EXTRA_CA_CERTS=" + e.ca,
		"SSL_CERT_FILE=" + e.ca, "FREEHOLD_TOKEN=" + e.token, "GEMINI_CLI_TRUST_WORKSPACE=true", "NO_COLOR=1", "BROWSER=true",
	}, e.more...)
	command.WaitDelay = time.Second
	return command
}

// run is all that a program prints.
func (e endpoint) run(ctx context.Context, input, name string, args ...string) string {
	command := e.command(ctx, name, args...)
	command.Stdin = strings.NewReader(input)
	said, err := command.CombinedOutput()
	if len(said) == 0 && err != nil {
		return err.Error()
	}
	return string(said)
}

// pipe has a program that carries calls over stdio begin a session and make a call, and returns the first answer that
// is an error, or the last, or what it logs where it gives none.
func (e endpoint) pipe(ctx context.Context, name string, args ...string) string {
	command := e.command(ctx, name, args...)
	var log strings.Builder
	command.Stderr = &log
	in, err := command.StdinPipe()
	if err != nil {
		return err.Error()
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return err.Error()
	}
	if err := command.Start(); err != nil {
		return err.Error()
	}
	defer func() { _ = in.Close(); _ = command.Process.Kill(); _ = command.Wait() }()
	answers := bufio.NewScanner(out)
	answers.Buffer(nil, 1<<20)
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
			`"clientInfo":{"name":"ask","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"say","arguments":{"words":"` +
			strings.Repeat("a", e.bytes) + `"}}}`,
	} {
		if _, err := io.WriteString(in, message+"\n"); err != nil || !answers.Scan() {
			_ = command.Process.Kill()
			_ = command.Wait()
			return logged(log.String())
		}
		if strings.Contains(answers.Text(), `"error"`) {
			break
		}
	}
	return answers.Text()
}

// logged is what mcp-remote logs as its end, or all.
func logged(log string) string {
	const end = "Fatal error: "
	at := strings.LastIndex(log, end)
	if at < 0 {
		return log
	}
	said, _, _ := strings.Cut(log[at:], "\n")
	return said
}

// line is the first line that begins so, without that.
func line(text, begin string) string {
	for each := range strings.Lines(text) {
		if at := strings.Index(each, begin); at >= 0 && at <= len("✗ ") {
			return each[:at] + each[at+len(begin):]
		}
	}
	return text
}

// askGo asks as a client of the Go SDK.
func askGo(ctx context.Context, e endpoint) string {
	transport := &mcp.StreamableClientTransport{Endpoint: e.url, MaxRetries: -1, HTTPClient: &http.Client{
		Transport: bearing(e.token),
	}}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "ask", Version: "1"}, nil).Connect(ctx, transport, nil)
	if err != nil {
		return err.Error()
	}
	defer session.Close()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{
		Name: "say", Arguments: map[string]any{"words": strings.Repeat("a", e.bytes)},
	})
	if err != nil {
		return err.Error()
	}
	data, _ := json.Marshal(result)
	return string(data)
}

type bearing string

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	if b != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// What differs from one run to the next.
var varies = []struct {
	of *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\x1b\[[0-9;]*m`), ""},
	// Of this machine, and of this login.
	{regexp.MustCompile(`(?m)^(\[mcp-[a-z]+\]|Please navigate to:|Authorization complete).*$`), ""},
	{regexp.MustCompile(`localhost:\d+/oauth/callback`), "localhost:PORT/oauth/callback"},
	{regexp.MustCompile(`/callback/[\w-]{12}`), "/callback/ID"},
	{regexp.MustCompile(`\s+`), " "},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\[\d+\] `), ""},
	{regexp.MustCompile(`eyJ[\w.-]+`), "TOKEN"},
}

// mostShown is how many letters of what a client shows are on the page.
const mostShown = 300

// shown is what a client shows, with words in the place of what varies.
func shown(text string, names map[string]string) string {
	// The longest first: one may be a part of another.
	for _, name := range slices.SortedFunc(maps.Keys(names), func(a, b string) int { return len(b) - len(a) }) {
		text = strings.ReplaceAll(text, name, names[name])
	}
	for _, v := range varies {
		text = v.of.ReplaceAllString(text, v.as)
	}
	text = strings.TrimSpace(text)
	if runes := []rune(text); len(runes) > mostShown {
		text = string(runes[:mostShown]) + "…"
	}
	return "`" + strings.NewReplacer("|", `\|`, "`", "'").Replace(text) + "`"
}
