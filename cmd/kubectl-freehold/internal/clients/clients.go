// Package clients knows how MCP clients are told of a server: what a person runs or pastes for each.
package clients

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"
)

// Access is what callers of a server need.
type Access string

// The ways to call a server.
const (
	Open  Access = "Open"  // no credential
	Token Access = "Token" // a token that the caller has from elsewhere, as of a ServiceAccount
	Login Access = "Login" // a token that the client gets itself, from a provider
)

// Endpoint is what a client is told of a server.
type Endpoint struct {
	// Name that the client gives it, of at most MaxName characters a-z, 0-9 and -.
	Name string `json:"name"`
	// URL that the client calls, and Transport is its MCP transport.
	URL       string `json:"url"`
	Transport string `json:"transport"`
	// InCluster is the URL for programs in the cluster.
	InCluster string `json:"inClusterURL"`
	Access    Access `json:"access"`
	// Header has the credential, empty for Open.
	Header string `json:"header,omitempty"`
	// Issuer, ClientID and Scopes are of a login. ClientID is empty where the client registers itself.
	Issuer   string   `json:"issuer,omitempty"`
	ClientID string   `json:"clientID,omitempty"`
	Scopes   []string `json:"scopes,omitempty"`
	// Account is the command that prints a token of a ServiceAccount that may call, empty if none may.
	Account string `json:"tokenCommand,omitempty"`
}

// TokenVariable is where a client's configuration takes a token from.
const TokenVariable = "FREEHOLD_TOKEN"

// MaxName is the longest name that each client takes, with the name of a tool behind it.
const MaxName = 24

// NameOf is what clients call the server of a namespace: NAMESPACE-NAME, in the namespace default NAME. A longer one is
// cut, and ends in six digits of its hash.
func NameOf(namespace, name string) string {
	whole := strings.ReplaceAll(namespace+"-"+name, ".", "-")
	if namespace == "default" {
		whole = strings.ReplaceAll(name, ".", "-")
	}
	if len(whole) <= MaxName {
		return whole
	}
	const digits = 6
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	return strings.TrimRight(whole[:MaxName-digits-1], "-") + fmt.Sprintf("-%x", sum)[:digits+1]
}

// Public reports whether a vendor's cloud can reach it.
func (e Endpoint) Public() bool { return strings.HasPrefix(e.URL, "https://") && e.URL != e.InCluster }

// Host is host and port of InCluster.
func (e Endpoint) Host() string {
	u, err := url.Parse(e.InCluster)
	if err != nil {
		return ""
	}
	return u.Host
}

// HeadersHelper is Claude Code's entry with a command that makes the header anew for each connection.
func (e Endpoint) HeadersHelper() (string, error) {
	return marshal(struct {
		Type   string `json:"type"`
		URL    string `json:"url"`
		Helper string `json:"headersHelper"`
	}{"http", e.URL, e.Account + ` | sed 's/.*/{"Authorization":"Bearer &"}/'`})
}

// MCPRemote is the entry of a client that starts programs.
func (e Endpoint) MCPRemote() (string, error) {
	type program struct {
		Command string            `json:"command"`
		Args    []string          `json:"args"`
		Env     map[string]string `json:"env,omitempty"`
	}
	run := program{Command: "npx", Args: []string{"-y", "mcp-remote@0.15.1", e.URL, "--body-timeout", "0"}}
	u, err := url.Parse(e.URL)
	if err != nil {
		return "", err
	}
	if u.Scheme == "http" && !slices.Contains([]string{"localhost", "127.0.0.1"}, u.Hostname()) {
		run.Args = append(run.Args, "--allow-http")
	}
	if e.Access == Token {
		run.Args = append(run.Args, "--header", "Authorization:${AUTHORIZATION}")
		run.Env = map[string]string{"AUTHORIZATION": "Bearer TOKEN"}
	}
	if strings.Contains(e.Issuer, "login.microsoftonline.com") { // it takes no parameter resource beside scopes
		run.Args = append(run.Args, "--disable-resource-parameter")
	}
	if e.ClientID != "" {
		info, err := marshal(map[string]string{"client_id": e.ClientID})
		if err != nil {
			return "", err
		}
		run.Args = append(run.Args, "--static-oauth-client-info", info)
	}
	text, err := marshal(map[string]any{"mcpServers": map[string]program{e.Name: run}})
	if err != nil {
		return "", err
	}
	var indented bytes.Buffer
	err = json.Indent(&indented, []byte(text), "", "  ")
	return indented.String(), err
}

// Client is a program that calls MCP servers.
type Client struct {
	// Name of the flag's value, and Title for people.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Version with which the text was run on the day Tested, or of whose documentation it is.
	Version string `json:"version"`
	Tested  string `json:"tested,omitempty"`
	// RedirectURIs are to be registered at the provider, empty where the client takes a new port each time.
	RedirectURIs []string `json:"redirectURIs,omitempty"`
	// Text, Fails and Forget are templates over an Endpoint.
	Text   string `json:"text"`
	Fails  string `json:"fails"`
	Forget string `json:"forget"`
}

//go:embed clients.yaml
var data []byte

// All are the known clients, by name.
var All = func() []Client {
	var all []Client
	if err := yaml.UnmarshalStrict(data, &all); err != nil {
		panic(err) // the file is part of the program, and a test reads it
	}
	return all
}()

// Named is the client of a name.
func Named(name string) (Client, bool) {
	i := slices.IndexFunc(All, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, false
	}
	return All[i], true
}

// Says is one of the client's templates for a server.
func (c Client) Says(text string, e Endpoint) (string, error) {
	t, err := template.New(c.Name).Option("missingkey=error").Funcs(template.FuncMap{"sh": Quoted, "json": marshal}).
		Parse(text)
	if err != nil {
		return "", err
	}
	var said strings.Builder
	err = t.Execute(&said, e)
	return strings.TrimSpace(said.String()), err
}

// Quoted is a word as a POSIX shell reads it back.
func Quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// marshal writes JSON that people read: without escapes for HTML.
func marshal(value any) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSpace(text.String()), err
}
