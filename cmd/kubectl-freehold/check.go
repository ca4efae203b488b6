package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// What a check comes to. Unknown is what could not be looked at, which is no fault.
const (
	passed  = "OK"
	warned  = "Warning"
	failed  = "Failed"
	unknown = "Unknown"
)

// checks are the results of a command, in the order in which they were made.
type checks struct {
	Checks []checked `json:"checks"`
}

type checked struct {
	Check   string `json:"check"`
	Result  string `json:"result"`
	Message string `json:"message"`
}

func (l *checks) add(check, result, message string) {
	l.Checks = append(l.Checks, checked{Check: check, Result: result, Message: strings.TrimSpace(message)})
}

func (l *checks) failed() bool {
	return slices.ContainsFunc(l.Checks, func(c checked) bool { return c.Result == failed })
}

func (c *cli) check() *cobra.Command {
	out, network := output{}, false
	cmd := &cobra.Command{
		Use:   "check [NAME | KIND NAME | KIND/NAME]",
		Short: "Check an installation, or ask a server now",
		Long: `Without a name, check what Freehold needs to run: the version of the API server, the
CRDs, the operator's pods and why one does not come up, its rights, the admission
policies, metrics, and images that cannot be pulled.

With a name, ask an MCPServer or an MCPRemoteProxy now, as a client does: connect to a
pod of its proxy through the API server, and list the tools. A NAME without a kind is
that of an MCPServer. Where callers need a token, it is that of the variable
FREEHOLD_TOKEN; "kubectl freehold connect" prints what fills it. The pod of the proxy that
gets the answer takes it for one to its own question.

With --network, measure whether NetworkPolicies are enforced: for a moment a pod of the
proxy's image runs in the server's namespace, and tries to reach the backend past the
proxy.

Unknown is what could not be looked at, with the right that is missing. The exit code
is 0 if nothing failed, 1 if something did, and 2 after an error.`,
		Example: `  # The installation
  kubectl freehold check

  # A server, now
  kubectl freehold check everything

  # Whether its backend can be reached past the proxy
  kubectl freehold check everything --network

  # In a pipeline
  kubectl freehold check -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 2:
				return errors.New("name one object as KIND NAME or KIND/NAME, or none; see --help for examples")
			case len(args) == 0 && network:
				return errors.New("name the server whose backend a pod tries to reach, or leave --network out")
			}
			return nil
		},
		ValidArgsFunction: c.completeServer,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if len(args) == 0 {
				return c.showChecks(out, c.installation(cmd.Context()))
			}
			return c.checkServer(cmd.Context(), out, args, network)
		},
	}
	out.add(cmd)
	cmd.Flags().BoolVar(&network, "network", false, "run a pod that tries to reach the backend past the proxy")
	return cmd
}

func (c *cli) checkServer(ctx context.Context, out output, args []string, network bool) error {
	r, err := c.reached(args)
	if err != nil {
		return err
	}
	list := &checks{}
	result, message := passed, title(r.object)+" is ready"
	ready, why := r.ready()
	if !ready {
		result, message = failed, why
	}
	list.add("status", result, message)
	result, message = c.askNow(ctx, r)
	list.add("answer", result, message)
	switch {
	case network && ready:
		result, message = c.measure(ctx, args, r)
		list.add("network", result, message)
	case network:
		list.add("network", unknown, "nothing is reached at a server that is not ready, also without a policy")
	}
	return c.showChecks(out, list)
}

func (c *cli) showChecks(out output, list *checks) error {
	if out.isTable() {
		lines := [][]string{{"CHECK", "RESULT", "MESSAGE"}}
		for _, found := range list.Checks {
			lines = append(lines, []string{found.Check, found.Result, safe(found.Message)})
		}
		if err := table(c.Out, lines); err != nil {
			return err
		}
	} else if err := out.print(c.Out, "Checks", list); err != nil {
		return err
	}
	if list.failed() {
		return errWrong
	}
	return nil
}
