package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
)

func (c *cli) rolloutApprove() *cobra.Command {
	r := undoing{}
	cmd := &cobra.Command{
		Use:   "approve NAME",
		Short: "Let content that is held get the calls",
		Long: `Write the hash of the content that an MCPServer's rollout holds into
spec.rollout.approved, with your rights and the field manager ` + undoManager + `. The
approval is of this content alone: any other is held again.

It writes nothing where no rollout is held, where the object has another generation
than the one given with --generation or changes meanwhile, and where another field
manager applies the field, as Argo CD or Flux does: approve there, in Git for example.`,
		Example: `  # Let what rollout status shows have the calls
  kubectl freehold rollout approve everything

  # In a pipeline that has tried generation 12
  kubectl freehold rollout approve everything --generation 12 --yes`,
		Args: oneServer, ValidArgsFunction: c.completeOneServer,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeRollout(cmd.Context(), args[0], r, approved)
		},
	}
	r.flags(cmd)
	return cmd
}

func (c *cli) rolloutPause() *cobra.Command {
	r := undoing{}
	cmd := &cobra.Command{
		Use:   "pause NAME",
		Short: "Stop a rollout where it is",
		Long: `Set spec.rollout.paused of an MCPServer, with your rights. Its rollout stops where it
is, and keeps what is left of its deadlines. What gets the calls goes on getting them.`,
		Example: `  kubectl freehold rollout pause everything`,
		Args:    oneServer, ValidArgsFunction: c.completeOneServer,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeRollout(cmd.Context(), args[0], r, paused)
		},
	}
	r.flags(cmd)
	return cmd
}

func (c *cli) rolloutResume() *cobra.Command {
	r := undoing{}
	cmd := &cobra.Command{
		Use:     "resume NAME",
		Short:   "Let a rollout that was stopped go on",
		Long:    `Remove spec.rollout.paused of an MCPServer, with your rights. Its rollout goes on.`,
		Example: `  kubectl freehold rollout resume everything`,
		Args:    oneServer, ValidArgsFunction: c.completeOneServer,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeRollout(cmd.Context(), args[0], r, resumed)
		},
	}
	r.flags(cmd)
	return cmd
}

// flags are those of commands that write the spec.
func (r *undoing) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Int64Var(&r.generation, "generation", 0, "metadata.generation that the object must have; 0 for any")
	flags.BoolVar(&r.force, "force-conflicts", false, "take fields that another field manager applies")
	flags.Var(&r.dryRun, "dry-run", "none, or server: send the request as a dry run, which changes nothing")
	flags.Lookup("dry-run").NoOptDefVal = "server"
	flags.BoolVarP(&r.yes, "yes", "y", false, "do not ask before writing")
}

// rolloutChange is a field of spec.rollout, the value that it is to have, nil for none, and what that means.
type rolloutChange struct {
	field string
	value any
	means string
}

// approved approves the content that is held.
func approved(server *v1alpha1.MCPServer) (rolloutChange, error) {
	rollout, step := server.Status.Rollout, stepAt(server)
	switch {
	case server.Status.ObservedGeneration < server.Generation:
		return rolloutChange{}, errors.New("no operator has acted on its latest change yet: look again in a moment")
	case step == nil || !v1alpha1.NeedsApproval(step.Reason):
		return rolloutChange{}, errors.New("nothing of it waits for an approval")
	}
	hash := rollout.Target.Hash
	means := fmt.Sprintf("content %s of workload generation %d gets the calls", hash[:min(len(hash), shownHash)],
		rollout.Target.Generation)
	if runtime := server.Status.Runtime; runtime != nil && runtime.Candidate != nil && runtime.Candidate.Lost > 0 {
		means += fmt.Sprintf(" without these tools: %s", strings.Join(runtime.Candidate.LostTools, ", "))
	}
	return rolloutChange{"approved", hash, means}, nil
}

func paused(server *v1alpha1.MCPServer) (rolloutChange, error) {
	if server.Spec.Rollout != nil && server.Spec.Rollout.Paused {
		return rolloutChange{}, errors.New("its rollout is paused already")
	}
	return rolloutChange{"paused", true, "its rollout stops where it is"}, nil
}

func resumed(server *v1alpha1.MCPServer) (rolloutChange, error) {
	if server.Spec.Rollout == nil || !server.Spec.Rollout.Paused {
		return rolloutChange{}, errors.New("its rollout is not paused")
	}
	return rolloutChange{"paused", nil, "its rollout goes on"}, nil
}

func (c *cli) changeRollout(
	ctx context.Context, name string, r undoing, decide func(*v1alpha1.MCPServer) (rolloutChange, error),
) error {
	u, server, err := c.server(name)
	if err != nil {
		return err
	}
	if err := r.mayChange(server); err != nil {
		return err
	}
	change, err := decide(server)
	if err != nil {
		return fmt.Errorf("%s: %w", title(u), err)
	}
	if err := r.mayTake(u, "rollout."+change.field); err != nil {
		return err
	}
	r.to = undoManager
	applier, _, err := c.applier(u, r.releasing)
	if err != nil {
		return err
	}
	if err := c.ask(r.releasing, fmt.Sprintf("%s: %s. Write spec.rollout.%s?", title(u), safe(change.means),
		change.field)); err != nil {
		return err
	}
	err = applier.As(undoManager).Replace(ctx, u, change.in(u))
	switch {
	case errors.Is(err, apply.ErrStale):
		return fmt.Errorf("%s has changed meanwhile, and nothing was written: look at it, and give the command again",
			title(u))
	case err != nil:
		return err
	case bool(r.dryRun):
		_, err = fmt.Fprintf(c.Out, "%s: nothing was written (dry run)\n", title(u))
		return err
	}
	_, err = fmt.Fprintf(c.Out, "%s: %s\n", title(u), safe(change.means))
	return err
}

// in is spec.rollout of a server with the change.
func (r rolloutChange) in(u *unstructured.Unstructured) map[string]any {
	rollout, _, _ := unstructured.NestedMap(u.Object, "spec", "rollout") //nolint:errcheck // it was decoded before
	rollout = maps.Clone(rollout)
	if rollout == nil {
		rollout = map[string]any{}
	}
	if r.value == nil {
		delete(rollout, r.field)
	} else {
		rollout[r.field] = r.value
	}
	return map[string]any{"rollout": rollout}
}
