//go:build clients

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc/oidctest"
	"github.com/freehold-dev/freehold/test/golden"
)

// printed is what a client is given, as kubectl freehold connect prints it.
type printed struct {
	client, name string
	// more is a command after those that are printed.
	more string
	// line is how the lines begin that say how the server is; empty for all.
	line string
	// ask reads what is printed, which is no shell's to run.
	ask func(ctx context.Context, e endpoint, text string) string
}

// connections are the ways to call a server.
var connections = []struct {
	what, login string
	clientID    string
}{
	{what: "without a login"},
	{
		what:  "with a token of a ServiceAccount",
		login: `"kubernetes":{"serviceAccounts":[{"namespace":"agents","name":"planner"}]}`,
	},
	{what: "with a provider, without `--client-id`", login: `"oidc":{"issuer":%q}`},
	{what: "with a provider, and `--client-id`", login: `"oidc":{"issuer":%q}`, clientID: "freehold"},
}

// TestWhatConnectPrintsAsClientsRunIt has a shell run what the plugin prints, with the clients of FREEHOLD_CLIENTS, and
// holds docs/maintainers/clients.md to what they show. FREEHOLD_PLUGIN is the plugin.
func TestWhatConnectPrintsAsClientsRunIt(t *testing.T) {
	folder := os.Getenv("FREEHOLD_CLIENTS")
	bin := programs(t, folder)
	var table strings.Builder
	whole := true
	table.WriteString("\n| callers | client | shows |\n| --- | --- | --- |\n")
	for _, c := range connections {
		what := c.what
		for _, p := range []printed{
			{client: "claude-code", name: "Claude Code", line: "echo: ", more: "claude mcp list"},
			{client: "codex", name: "Codex CLI", line: "echo "},
			{client: "gemini", name: "Gemini CLI", line: "echo: "},
			{client: "copilot", name: "Copilot CLI", more: askCopilot},
			{client: "inspector", name: "Inspector CLI"},
			{client: "mcp-remote", name: "mcp-remote", ask: askRemote},
			{client: "json", name: "TypeScript SDK 2", ask: askTypeScript(folder)},
			{client: "json", name: "Go SDK", ask: func(ctx context.Context, e endpoint, _ string) string {
				return askGo(ctx, e)
			}},
		} {
			asked := false
			t.Run(c.what+"/"+p.name, func(t *testing.T) {
				asked = true
				r := refusal{what: c.what, login: c.login != ""}
				if c.login != "" {
					r.token = oidctest.Object{}
				}
				s := r.stage(t)
				login := c.login
				if strings.Contains(login, "%q") {
					login = fmt.Sprintf(login, s.issuer.URL)
					s.token = ""
				}
				said := p.run(t, s, bin, printedFor(t, s, p.client, login, c.clientID))
				t.Log(said)
				fmt.Fprintf(&table, "| %s | %s | %s |\n", what, p.name, said)
				what = ""
				p.judge(t, said, c.login, c.clientID)
			})
			whole = whole && asked
		}
	}
	if whole {
		golden.Part(t, "../../docs/maintainers/clients.md", "<!-- generated from cmd/runner, what connect prints -->\n",
			"<!-- end of what connect prints -->\n", table.String())
	}
}

// calls are what clients show that reach a server, and logins what they show before and after a login. The others list
// how they would log in, log in from within, or not at all.
var (
	calls = map[string]string{
		"Claude Code": "✔ Connected", "Gemini CLI": "Connected", "Inspector CLI": `"say"`, "Copilot CLI": "said",
		"mcp-remote": "said", "TypeScript SDK 2": "said", "Go SDK": "said",
	}
	logins = map[string]string{
		"Claude Code": "! Needs authentication, then URL/mcp (HTTP) - ✔ Connected Browser: ISSUER/authorize?client_id",
		"Codex CLI":   "enabled OAuth Browser: ISSUER/authorize?client_id=freehold", "Inspector CLI": `"say"`,
		"mcp-remote": "said",
	}
)

// judge holds what is shown to what must be so whatever else a client prints.
func (p *printed) judge(t *testing.T, said, login, clientID string) {
	t.Helper()
	shows := calls[p.name]
	switch {
	case clientID != "":
		if shows = logins[p.name]; strings.Contains(said, "Incompatible auth server") {
			t.Error("a client that is told its ID takes the provider for one that registers clients")
		}
	case strings.Contains(login, "oidc"):
		return
	}
	if !strings.Contains(said, shows) {
		t.Errorf("it shows no %q", shows)
	}
}

// programs is a folder with the clients by the names that are printed, with a kubectl that makes tokens, and a browser
// in which somebody logs in at once.
func programs(t *testing.T, folder string) string {
	t.Helper()
	bin, modules := t.TempDir(), filepath.Join(folder, "node_modules")
	for name, at := range map[string]string{
		"claude": "@anthropic-ai/claude-code-linux-x64/claude", "codex": ".bin/codex", "gemini": ".bin/gemini",
		"copilot": "@github/copilot/npm-loader.js", "node": ".bin/node",
	} {
		if _, err := os.Stat(filepath.Join(modules, at)); err != nil {
			t.Fatalf("%s is missing, run make clients: %v", name, err)
		}
		if err := os.Symlink(filepath.Join(modules, at), filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	const browser = `echo "$1" >>"$HOME/browsed"; curl -sSL --cacert "$SSL_CERT_FILE" -o "$HOME/page" "$1"`
	for name, text := range map[string]string{
		"kubectl": `[ "$1 $2 $3 $4" = "create token planner -n" ] && [ "$7" = "$FREEHOLD_AUDIENCE" ] && ` +
			`echo "$FREEHOLD_ISSUED"`,
		"browser": browser, "xdg-open": browser,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// printedFor is what the plugin prints for a client.
func printedFor(t *testing.T, s *stage, client, login, clientID string) string {
	t.Helper()
	api := httptest.NewServer(served(s.front.URL+"/mcp", login))
	defer api.Close()
	config := text(t, `{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":`+
		`{"cluster":"x"}}],"clusters":[{"name":"x","cluster":{"server":"`+api.URL+`"}}]}`)
	args := []string{"connect", "echo", "--client", client}
	if clientID != "" {
		args = append(args, "--client-id", clientID)
	}
	command := exec.CommandContext(t.Context(), os.Getenv("FREEHOLD_PLUGIN"), args...)
	command.Env = []string{"KUBECONFIG=" + config, "HOME=" + s.home}
	said, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl freehold %v: %v: %s", args, err, said)
	}
	return string(said)
}

// served is an API server that has one MCPServer, which is ready, and its login.
func served(public, login string) http.Handler {
	const group = "/apis/freehold.dev/v1alpha1"
	ref := ""
	if login != "" {
		ref = `,"oidcConfigRef":{"name":"company"}`
	}
	answers := map[string]string{
		"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[]}`,
		"/apis": `{"kind":"APIGroupList","groups":[{"name":"freehold.dev","versions":[{"groupVersion":` +
			`"freehold.dev/v1alpha1","version":"v1alpha1"}],"preferredVersion":{"groupVersion":"freehold.dev/v1alpha1",` +
			`"version":"v1alpha1"}}]}`,
		group: `{"kind":"APIResourceList","groupVersion":"freehold.dev/v1alpha1","resources":[` +
			`{"name":"mcpservers","singularName":"mcpserver","namespaced":true,"kind":"MCPServer","verbs":["get"]},` +
			`{"name":"mcpoidcconfigs","singularName":"mcpoidcconfig","namespaced":true,"kind":"MCPOIDCConfig","verbs":["get"]}]}`,
		group + "/namespaces/default/mcpservers/echo": `{"apiVersion":"freehold.dev/v1alpha1","kind":"MCPServer","metadata":` +
			`{"name":"echo","namespace":"default","managedFields":[{"manager":"kubectl"}]},` +
			`"spec":{"image":"echo"` + ref + `},"status":{"url":` +
			`"http://echo-proxy.default.svc:8000/mcp","publicURL":"` + public + `","conditions":[{"type":"Ready",` +
			`"status":"True","reason":"Ready"}]}}`,
		group + "/namespaces/default/mcpoidcconfigs/company": `{"apiVersion":"freehold.dev/v1alpha1","kind":"MCPOIDCConfig",` +
			`"metadata":{"name":"company","namespace":"default","managedFields":[{"manager":"kubectl"}]},"spec":{` + login + `}}`,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, known := answers[r.URL.Path]
		if !known {
			w.WriteHeader(http.StatusNotFound)
			body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		}
		_, _ = w.Write([]byte(body))
	})
}

// run has a shell run what is printed, or the client read it, and returns what is shown.
func (p *printed) run(t *testing.T, s *stage, bin, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e := s.endpoint
	m := &model{}
	models := httptest.NewServer(m)
	defer models.Close()
	e.more = []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "BROWSER=" + filepath.Join(bin, "browser"), "FREEHOLD_TOKEN=",
		"FREEHOLD_AUDIENCE=" + e.url, "FREEHOLD_ISSUED=" + e.token,
		"COPILOT_PROVIDER_BASE_URL=" + models.URL, "COPILOT_MODEL=model", "COPILOT_OFFLINE=true",
		"MCP_AUTO_OPEN_ENABLED=true", // as on a terminal
	}
	// npx takes what is installed below the folder in which it runs.
	if err := os.Symlink(filepath.Join(os.Getenv("FREEHOLD_CLIENTS"), "node_modules"),
		filepath.Join(e.home, "node_modules")); err != nil {
		t.Fatal(err)
	}
	if p.ask != nil {
		return shown(p.ask(ctx, e, text), s.names())
	}
	// A login asks for a terminal, and how Claude Code sees the server before it is asked for besides.
	const terminal = `claude() { [ "$2" != login ] || { command claude mcp list; script -qec "claude $*" /dev/null ` +
		`>"$HOME/login"; return; }; command claude "$@"; }` + "\n"
	said := e.run(ctx, "", "/bin/bash", "-c", terminal+text+"\n"+p.more)
	if ctx.Err() != nil {
		t.Errorf("it has not ended within %s", patience)
	}
	if p.more == askCopilot {
		said = e.copilotSaid(m, said)
	}
	if of := lines(said, p.line); len(of) > 0 {
		said = strings.Join(slices.Compact(of), ", then ")
	} else {
		t.Log(said)
	}
	return shown(strings.TrimSpace(said)+browsed(e), s.names())
}

// lines are those that begin so, without that.
func lines(text, begin string) (of []string) {
	for each := range strings.Lines(text) {
		if at := strings.Index(each, begin); begin != "" && at >= 0 && at <= len("✗ ") {
			of = append(of, strings.TrimSpace(each[:at]+each[at+len(begin):]))
		}
	}
	return of
}

// browsed is where a client has sent its browser: the parameters that a provider judges.
func browsed(e endpoint) string {
	data, err := os.ReadFile(filepath.Join(e.home, "browsed"))
	if err != nil {
		return ""
	}
	at, err := url.Parse(strings.TrimSpace(string(data)))
	if err != nil {
		return err.Error()
	}
	asks := at.Query()
	for name := range asks {
		if !slices.Contains([]string{"client_id", "redirect_uri", "resource", "scope"}, name) {
			asks.Del(name)
		}
	}
	plain, _ := url.QueryUnescape(asks.Encode())
	return " Browser: " + at.Scheme + "://" + at.Host + at.Path + "?" + plain
}

// askRemote starts the program of mcp-remote's entry, as the client does that it is pasted into.
func askRemote(ctx context.Context, e endpoint, text string) string {
	var entry struct {
		Servers map[string]struct {
			Command string            `json:"command"`
			Args    []string          `json:"args"`
			Env     map[string]string `json:"env"`
		} `json:"mcpServers"`
	}
	from, to := strings.Index(text, "{"), strings.LastIndex(text, "}")
	if err := json.Unmarshal([]byte(text[from:to+1]), &entry); err != nil {
		return err.Error()
	}
	for _, server := range entry.Servers {
		for name, value := range server.Env {
			e.more = append(e.more, name+"="+strings.Replace(value, "TOKEN", e.token, 1))
		}
		return e.pipe(ctx, server.Command, server.Args...) + browsed(e)
	}
	return "no server in " + text
}

// askTypeScript has the SDK call the URL that is printed, with a token where callers need one.
func askTypeScript(folder string) func(context.Context, endpoint, string) string {
	return func(ctx context.Context, e endpoint, text string) string {
		var to struct {
			URL    string `json:"url"`
			Access string `json:"access"`
		}
		if err := json.Unmarshal([]byte(text), &to); err != nil {
			return err.Error()
		}
		if to.Access != "Token" {
			e.token = ""
		}
		return e.run(ctx, "", filepath.Join(folder, "node_modules/.bin/node"), filepath.Join(folder, "ask.mjs"), "v2", to.URL,
			e.token, "1")
	}
}

// logsIn is the part of a provider where a person logs in: at once.
func logsIn(issuer *oidctest.Issuer, t *testing.T) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		to, asks := r.URL.Query().Get("redirect_uri"), r.URL.Query()
		back := url.Values{"code": {asks.Get("resource")}, "state": {asks.Get("state")}, "iss": {issuer.URL}}
		http.Redirect(w, r, to+"?"+back.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		token := issuer.Token(t, oidctest.Object{"alg": "RS256", "kid": "one"}, oidctest.Object{
			"iss": issuer.URL, "sub": "ann", "aud": r.FormValue("code"), "exp": time.Now().Unix() + 600,
		})
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 600})
	})
	return mux
}

// certify gives a provider a certificate of an authority of its own, and returns that of the authority in PEM: clients
// in Rust take none that signs itself.
func certify(t *testing.T, issuer *oidctest.Issuer) []byte {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "provider"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	its, err := x509.CreateCertificate(rand.Reader, ca, ca, &authority.PublicKey, authority)
	must(err)
	signed, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, authority)
	must(err)
	issuer.TLS.Certificates = []tls.Certificate{{Certificate: [][]byte{signed}, PrivateKey: key}}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: its})
}
