package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

func (c *cli) rollout() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Show how the content of a server is rolled out, approve it, stop it, and go back",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.rolloutStatus(), c.rolloutHistory(), c.rolloutUndo(), c.rolloutApprove(), c.rolloutPause(),
		c.rolloutResume())
	return cmd
}

// oneServer demands the name of an MCPServer.
func oneServer(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("name one MCPServer; see --help for examples")
	}
	return nil
}

func (c *cli) completeOneServer(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.names(argument(contract.MCPServer)), cobra.ShellCompDirectiveNoFileComp
}

func (c *cli) server(name string) (*unstructured.Unstructured, *v1alpha1.MCPServer, error) {
	u, err := c.object(argument(contract.MCPServer), name)
	if err != nil {
		return nil, nil, err
	}
	server := &v1alpha1.MCPServer{}
	return u, server, decode(u, server)
}

// The bounds of rollout status: how long it waits where nobody says, and between two looks.
const (
	defaultWait = 10 * time.Minute
	lookEvery   = time.Second
)

func (c *cli) rolloutStatus() *cobra.Command {
	timeout := defaultWait
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Wait until the spec of a server has rolled out",
		Long: `Show how far the content of an MCPServer's spec is, and wait until it has
rolled out and calls are served with it, or until Freehold says that it does not go on
without a person (condition Stalled). A suspended server has nothing to roll out. While
content comes up beside what serves, the ConfigMaps and Secrets that both read are named,
and which of them have been written since.

The exit code is 0 once the spec has rolled out, 1 if it stalls or is not rolled
out in time, and 2 after an error.`,
		Example: `  # Until it has rolled out
  kubectl freehold rollout status everything

  # For a script that waits no longer than two minutes
  kubectl freehold rollout status everything --timeout 2m

  # One look
  kubectl freehold rollout status everything --timeout 0`,
		Args: oneServer, ValidArgsFunction: c.completeOneServer,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, end := context.WithTimeout(cmd.Context(), timeout)
			defer end()
			return c.awaitRollout(ctx, args[0])
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait; 0 to look once")
	return cmd
}

// progress is how far a rollout is.
type progress int

const (
	goesOn progress = iota
	stalls
	rolledOut
)

// awaitRollout looks until a rollout ends, or the context does, and prints what is new.
func (c *cli) awaitRollout(ctx context.Context, name string) error {
	said, told, looks := "", map[string]bool{}, time.NewTicker(lookEvery)
	defer looks.Stop()
	for {
		u, server, err := c.server(name)
		if err != nil {
			return err
		}
		state, words := progressOf(u, server)
		if words != said {
			fmt.Fprintln(c.Out, safe(words))
			said = words
			for _, line := range c.reads(ctx, u, server) {
				if !told[line] {
					fmt.Fprintln(c.Out, "  "+safe(line))
				}
				told[line] = true
			}
		}
		switch state {
		case rolledOut:
			return nil
		case stalls:
			return errWrong
		case goesOn:
		}
		select {
		case <-ctx.Done():
			fmt.Fprintf(c.Out, "%s has not rolled out in time\n", title(u))
			return errWrong
		case <-looks.C:
		}
	}
}

// progressOf says how far the content of the spec is, by the conditions of its generation and the steps of a rollout.
func progressOf(u *unstructured.Unstructured, server *v1alpha1.MCPServer) (progress, string) {
	conditions := server.Status.Conditions
	find := func(of string) *metav1.Condition { return meta.FindStatusCondition(conditions, of) }
	is := func(of string) bool { return meta.IsStatusConditionTrue(conditions, of) }
	said := func(words string, c *metav1.Condition) string {
		if c.Message == "" {
			return fmt.Sprintf("%s %s: %s", title(u), words, c.Reason)
		}
		return fmt.Sprintf("%s %s: %s: %s", title(u), words, c.Reason, c.Message)
	}
	step := stepOf(server)
	switch {
	case server.DeletionTimestamp != nil:
		return stalls, title(u) + " is being deleted"
	case server.Status.ObservedGeneration < server.Generation:
		return goesOn, title(u) + " waits: no operator has acted on its latest change yet"
	case is(v1alpha1.ConditionStalled):
		return stalls, said("stalls", find(v1alpha1.ConditionStalled)) + step
	case is(v1alpha1.ConditionSuspended):
		return rolledOut, title(u) + " is suspended: its spec rolls out when it goes on"
	case is(v1alpha1.ConditionReconciling):
		return goesOn, said("is rolling out", find(v1alpha1.ConditionReconciling)) + step
	case is(v1alpha1.ConditionReady):
		return rolledOut, title(u) + " has rolled out" + step
	case find(v1alpha1.ConditionReady) != nil:
		return goesOn, said("is not ready", find(v1alpha1.ConditionReady)) + step
	}
	return goesOn, title(u) + " waits: no operator has reported on it yet"
}

// stepOf names the step that a rollout is at, empty where none is under way.
func stepOf(server *v1alpha1.MCPServer) string {
	step := stepAt(server)
	if step == nil {
		return ""
	}
	steps := server.Status.Rollout.Steps
	at := slices.IndexFunc(steps, func(s v1alpha1.RolloutStep) bool { return s.Name == step.Name })
	return fmt.Sprintf(" (step %d of %d, %s: %s)", at+1, len(steps), step.Name,
		cmp.Or(step.Message, step.Reason, string(step.State)))
}

// stepAt is the step that a rollout is at, nil where none is under way.
func stepAt(server *v1alpha1.MCPServer) *v1alpha1.RolloutStep {
	if server.Status.Rollout == nil {
		return nil
	}
	for i, step := range server.Status.Rollout.Steps {
		if step.State == v1alpha1.StepActive || step.State == v1alpha1.StepFailed {
			return &server.Status.Rollout.Steps[i]
		}
	}
	return nil
}
