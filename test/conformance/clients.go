package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Look looks at all that a server offers, and returns it as JSON.
type Look func(context.Context, Target, Plan) ([]byte, error)

// LookOfNode is that of a client of the TypeScript SDK, v1 or v2: look.mjs in a folder with its packages, on a Node.
func LookOfNode(node, folder, sdk string) Look {
	return func(ctx context.Context, target Target, plan Plan) ([]byte, error) {
		to, err := json.Marshal(target)
		if err != nil {
			return nil, err
		}
		what, err := json.Marshal(plan)
		if err != nil {
			return nil, err
		}
		return Said(exec.CommandContext(ctx, node, filepath.Join(folder, "look.mjs"), sdk, string(to), string(what)))
	}
}

// Said is what a command prints.
func Said(command *exec.Cmd) ([]byte, error) {
	var out, wrong bytes.Buffer
	command.Stdout, command.Stderr = &out, &wrong
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s%s", err, out.Bytes(), wrong.Bytes())
	}
	return out.Bytes(), nil
}

// Environ is an environment as NAME=VALUE.
func Environ(more map[string]string) (env []string) {
	for _, name := range slices.Sorted(maps.Keys(more)) {
		env = append(env, name+"="+more[name])
	}
	return env
}

// Ended is a result, or what is wrong.
func Ended(result any, err error) any {
	if err != nil {
		return map[string]any{"failed": err.Error()}
	}
	return result
}

// Texts are arguments of a prompt.
func Texts(arguments map[string]any) map[string]string {
	all := map[string]string{}
	for name, value := range arguments {
		all[name] = fmt.Sprint(value)
	}
	return all
}

// seen is what the client of the Go SDK saw.
type seen struct {
	Instructions                        string
	Tools, Prompts, Resources, Template []any
	Called, Got, Read                   []any
	Together                            []any `json:",omitempty"`
	After                               any   `json:",omitempty"`
}

// LookOfGoSDK is that of a client of the Go SDK.
func LookOfGoSDK(ctx context.Context, target Target, plan Plan) ([]byte, error) {
	var to mcp.Transport = &mcp.StreamableClientTransport{Endpoint: target.URL, MaxRetries: -1}
	switch {
	case target.Events != "":
		to = &mcp.SSEClientTransport{Endpoint: target.Events}
	case target.URL == "":
		command := exec.CommandContext(ctx, target.Command[0], target.Command[1:]...)
		command.Env = append(command.Environ(), Environ(target.Env)...)
		to = &mcp.CommandTransport{Command: command}
	}
	session, err := goSDK(plan).Connect(ctx, to, nil)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	hello := session.InitializeResult()
	s := seen{Instructions: hello.Instructions}
	if hello.Capabilities.Tools != nil {
		s.Tools, err = listed(session.Tools(ctx, nil), err)
	}
	if hello.Capabilities.Prompts != nil {
		s.Prompts, err = listed(session.Prompts(ctx, nil), err)
	}
	if hello.Capabilities.Resources != nil {
		s.Resources, err = listed(session.Resources(ctx, nil), err)
		s.Template, err = listed(session.ResourceTemplates(ctx, nil), err)
	}
	if err != nil && !plan.More {
		return nil, err
	}
	for _, call := range plan.Tools {
		s.Called = append(s.Called, called(ctx, session, call))
	}
	for _, prompt := range plan.Prompts {
		s.Got = append(s.Got, Ended(session.GetPrompt(ctx,
			&mcp.GetPromptParams{Name: prompt.Name, Arguments: Texts(prompt.Arguments)})))
	}
	for _, uri := range plan.Resources {
		s.Read = append(s.Read, Ended(session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})))
	}
	if plan.More && len(plan.Tools) > 0 {
		s.more(ctx, session, plan.Tools[0])
	}
	return json.Marshal(s)
}

// goSDK is a client that can be asked nothing, or with more in the plan all that clients can be asked.
func goSDK(plan Plan) *mcp.Client {
	options := &mcp.ClientOptions{}
	if plan.More {
		options.CreateMessageHandler = func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) { //nolint:staticcheck // servers of revision 2025-11-25 ask
			return &mcp.CreateMessageResult{Model: "look", Role: "assistant", Content: &mcp.TextContent{Text: "sampled"}}, nil //nolint:staticcheck // servers of revision 2025-11-25 ask
		}
		options.ElicitationHandler = func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "look", Version: "1"}, options)
	if plan.More {
		client.AddRoots(&mcp.Root{URI: "file:///tmp", Name: "tmp"}) //nolint:staticcheck // servers of revision 2025-11-25 ask
	}
	return client
}

// more does what clients do beside calls one after the other.
func (s *seen) more(ctx context.Context, session *mcp.ClientSession, call Named) {
	s.Together = make([]any, 10)
	var calls sync.WaitGroup
	for i := range s.Together {
		calls.Go(func() { s.Together[i] = called(ctx, session, call) })
	}
	calls.Wait()
	soon, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	called(soon, session, call)
	s.After = called(ctx, session, call)
}

func called(ctx context.Context, session *mcp.ClientSession, call Named) any {
	return Ended(session.CallTool(ctx, &mcp.CallToolParams{Name: call.Name, Arguments: call.Arguments}))
}

func listed[T any](items iter.Seq2[T, error], failed error) ([]any, error) {
	all := []any{}
	if failed != nil {
		return nil, failed
	}
	for item, err := range items {
		if err != nil {
			return []any{Ended(nil, err)}, err
		}
		all = append(all, item)
	}
	return all, nil
}
