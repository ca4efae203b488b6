// Package call is `freehold-runner call`: it waits until an MCP server answers and
// calls one tool, as `helm test` does to prove an installation. `freehold-runner reach`
// measures whether NetworkPolicies are enforced.
package call

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// pause is the time between two attempts to connect.
const pause = time.Second / 2

// order is what the flags say.
type order struct {
	url, tool string
	arguments map[string]any
	// backend is HOST:PORT of the server's backend, empty for none to measure.
	backend string
	timeout time.Duration
}

// Main runs the command until ctx ends, and returns its exit code: 0 if the tool
// answered, 1 if not, 2 if the flags are wrong.
func Main(ctx context.Context, args []string, out, failures io.Writer) int {
	o, err := parse(args, failures)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(failures, "freehold-runner call:", err)
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := o.run(ctx, out); err != nil {
		fmt.Fprintln(failures, "freehold-runner call:", err)
		return 1
	}
	if o.backend != "" { // the proxy was reached
		_, says := reached(ctx, o.backend)
		fmt.Fprintln(out, says)
	}
	return 0
}

func parse(args []string, usage io.Writer) (order, error) {
	o, arguments := order{}, ""
	flags := flag.NewFlagSet("freehold-runner call", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&o.url, "url", "", "URL of an MCP server over streamable HTTP (required)")
	flags.StringVar(&o.tool, "tool", "", "tool to call; the tools are listed if empty")
	flags.StringVar(&arguments, "arguments", "{}", "arguments of the call, a JSON object")
	flags.StringVar(&o.backend, "backend", "",
		"HOST:PORT of the server's backend: say also whether NetworkPolicies keep this pod from it")
	flags.DurationVar(&o.timeout, "timeout", 3*time.Minute, "how long to wait for the server and its answer")
	if err := flags.Parse(args); err != nil {
		return order{}, err
	}
	if o.url == "" {
		return order{}, errors.New("--url is missing: write the URL of a server, as its status.url says it")
	}
	if err := json.Unmarshal([]byte(arguments), &o.arguments); err != nil {
		return order{}, fmt.Errorf("--arguments is no JSON object: %w", err)
	}
	return o, nil
}

// run connects, repeatedly until ctx ends, and then calls once: a call that was sent
// may have run, and is not sent again.
func (o order) run(ctx context.Context, out io.Writer) error {
	session, err := o.connect(ctx)
	if err != nil {
		return err
	}
	defer session.Close() //nolint:errcheck // the answer is here
	if o.tool == "" {
		var names []string
		for tool, err := range session.Tools(ctx, nil) {
			if err != nil {
				return fmt.Errorf("listing the tools of %s: %w", o.url, err)
			}
			names = append(names, tool.Name)
		}
		fmt.Fprintf(out, "%s has the tools %s\n", o.url, strings.Join(names, ", "))
		return nil
	}
	answer, err := session.CallTool(ctx, &mcp.CallToolParams{Name: o.tool, Arguments: o.arguments})
	if err != nil {
		return fmt.Errorf("calling the tool %s of %s: %w", o.tool, o.url, err)
	}
	content, err := json.Marshal(answer.Content)
	if err != nil {
		return fmt.Errorf("reading the answer of the tool %s: %w", o.tool, err)
	}
	if answer.IsError {
		return fmt.Errorf("the tool %s answers with an error: %s", o.tool, content)
	}
	fmt.Fprintf(out, "the tool %s of %s answers: %s\n", o.tool, o.url, content)
	return nil
}

func (o order) connect(ctx context.Context) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "freehold-call"}, nil)
	for {
		session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: o.url, DisableStandaloneSSE: true}, nil)
		if err == nil {
			return session, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("connecting to %s for %s: %w", o.url, o.timeout, err)
		}
	}
}
