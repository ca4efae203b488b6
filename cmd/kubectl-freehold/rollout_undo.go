package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/runspec"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// undoManager is the field manager of rollout undo.
const undoManager = "kubectl-freehold"

// undoing is what rollout undo was told.
type undoing struct {
	releasing
	revision, generation int64
	force, present       bool
}

func (c *cli) rolloutUndo() *cobra.Command {
	r := undoing{}
	cmd := &cobra.Command{
		Use:   "undo NAME",
		Short: "Write earlier content of a server into its spec",
		Long: `Write the fields of spec that an earlier content of an MCPServer's backend came of back
into the spec, with your rights and the field manager ` + undoManager + `: by default those of
the last content that the spec does not ask for. Where that one cannot be written back,
name one with --to-revision. Freehold then rolls them out like any other change. The
command shows what changes, and asks before it writes.

It writes nothing where

  - the object has another generation than the one given with --generation, or
    changes meanwhile;
  - another field manager applies the fields that change, as Argo CD, Flux or a pipeline
    with a field manager of its own does. It would write them again, so change them
    there, in Git for example; --force-conflicts takes them until then. A pipeline that
    applies as "kubectl" is not told from a person;
  - a ConfigMap or Secret that the content reads is gone, or has been written since the
    content was stored. What they said then is kept nowhere, and does not come back;
    --present-references goes back with what they say now. A key that was only removed
    since is not seen.

An image under a tag is the one that the tag leads to now; write a digest to be sure.

Replicas, the proxy's configuration and claims of volumes stay as they are, and so does
spec.path, unless the content is of another transport or of sse.

Then change your manifest too: the next kubectl apply --server-side of the old one is in
conflict with ` + undoManager + `. --force-conflicts of kubectl apply takes the fields back.`,
		Example: `  # To the content before
  kubectl freehold rollout undo everything

  # What would change
  kubectl freehold rollout undo everything --to-revision 4 --dry-run

  # In a pipeline that has looked at generation 12
  kubectl freehold rollout undo everything --generation 12 --yes`,
		Args: oneServer, ValidArgsFunction: c.completeOneServer,
		RunE: func(cmd *cobra.Command, args []string) error { return c.undo(cmd.Context(), args[0], r) },
	}
	flags := cmd.Flags()
	flags.Int64Var(&r.revision, "to-revision", 0, "revision of rollout history to go back to; 0 for the last that differs")
	flags.BoolVar(&r.present, "present-references", false,
		"go back although what ConfigMaps or Secrets said then does not come back")
	r.flags(cmd)
	return cmd
}

func (c *cli) undo(ctx context.Context, name string, r undoing) error {
	u, server, err := c.server(name)
	if err != nil {
		return err
	}
	if err := r.mayChange(server); err != nil {
		return err
	}
	contents, unread := c.contents(server)
	target, err := r.target(server, contents)
	if err != nil {
		return errors.Join(err, unread)
	}
	if unread != nil {
		fmt.Fprintln(c.ErrOut, "Not all of the history can be read:", unread)
	}
	fields, changes, err := undone(server, target.spec)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s goes back to revision %d, image %s:\n", title(u), target.Revision, safe(target.Image))
	for _, change := range changes {
		fmt.Fprintln(c.Out, "  "+change.String())
	}
	if len(changes) == 0 {
		fmt.Fprintln(c.Out, "  nothing changes: the spec asks for it already")
		return nil
	}
	if err := r.mayTake(u, slices.Sorted(maps.Keys(fields))...); err != nil {
		return err
	}
	r.to = undoManager
	applier, reader, err := c.applier(u, r.releasing)
	if err != nil {
		return err
	}
	if err := c.references(ctx, reader, server.Namespace, target, r); err != nil {
		return err
	}
	if err := c.ask(r.releasing, fmt.Sprintf("Write this into the spec of %s?", title(u))); err != nil {
		return err
	}
	err = applier.As(undoManager).Replace(ctx, u, fields)
	switch {
	case errors.Is(err, apply.ErrStale):
		return fmt.Errorf("%s has changed meanwhile, and nothing was written: look at it, and give the command again",
			title(u))
	case err != nil:
		return err
	case bool(r.dryRun):
		_, err = fmt.Fprintf(c.Out, "%s could go back (dry run)\n", title(u))
		return err
	}
	_, err = fmt.Fprintf(c.Out, "%s goes back: kubectl freehold rollout status %s shows how far it is\n"+
		"Change its manifest too: an apply of the old one is in conflict with field manager %q, or writes it again\n",
		title(u), name, undoManager)
	return err
}

// mayChange refuses an object that is not the one which the command was given for.
func (r undoing) mayChange(server *v1alpha1.MCPServer) error {
	switch {
	case server.DeletionTimestamp != nil:
		return fmt.Errorf("MCPServer/%s is being deleted", server.Name)
	case r.generation != 0 && r.generation != server.Generation:
		return fmt.Errorf("MCPServer/%s has generation %d, and the command was given for %d: look at what has changed, and "+
			"give it again", server.Name, server.Generation, r.generation)
	}
	return nil
}

// target is the content to go back to: without a revision the last that the spec does not ask for. It does not pass
// over one that cannot be written back.
func (r undoing) target(server *v1alpha1.MCPServer, contents []storedContent) (storedContent, error) {
	known := make([]string, 0, len(contents))
	for _, content := range contents {
		known = append(known, fmt.Sprint(content.Revision))
		switch {
		case r.revision != 0 && content.Revision != r.revision:
			continue
		case r.revision == 0 && (!content.claimed || content.Hash != "" && workload.AsksFor(server, content.run) == nil):
			continue
		case content.err != nil && r.revision == 0:
			return content, fmt.Errorf("revision %d of MCPServer/%s is the last that differs, and cannot be written back: %w; "+
				"name another with --to-revision", content.Revision, server.Name, content.err)
		case content.err != nil:
			return content, fmt.Errorf("MCPServer/%s cannot go back to revision %d: %w", server.Name, r.revision, content.err)
		}
		return content, nil
	}
	switch {
	case r.revision != 0:
		return storedContent{}, fmt.Errorf("there is no revision %d of MCPServer/%s: the history has %s", r.revision,
			server.Name, strings.Join(known, ", "))
	case len(contents) == 0:
		return storedContent{}, fmt.Errorf("no content of MCPServer/%s is kept yet", server.Name)
	}
	return storedContent{}, fmt.Errorf("there is no earlier content of MCPServer/%s to go back to", server.Name)
}

// undone are the fields of a server's spec that change when it goes back, with their values, nil for those that go.
func undone(server *v1alpha1.MCPServer, spec *v1alpha1.MCPServerSpec) (map[string]any, []change, error) {
	now, err := contentFields(&server.Spec)
	if err != nil {
		return nil, nil, err
	}
	then, err := contentFields(spec)
	if err != nil {
		return nil, nil, err
	}
	fields, all := map[string]any{}, []change{}
	for _, field := range runspec.ContentFields() {
		if field == "path" && !runspec.TakesPath(&server.Spec, spec) {
			continue
		}
		if changes := changesOf("spec."+field, now[field], then[field]); len(changes) > 0 {
			fields[field] = then[field]
			all = append(all, changes...)
		}
	}
	return fields, all, nil
}

// with is a server with fields of its spec as undone has them.
func with(server *v1alpha1.MCPServer, fields map[string]any) (*v1alpha1.MCPServer, error) {
	changed, spec := server.DeepCopy(), map[string]any{}
	data, err := json.Marshal(server.Spec)
	if err == nil {
		err = json.Unmarshal(data, &spec)
	}
	for field, value := range fields {
		spec[field] = value // nil is null, which is none
	}
	if err == nil {
		data, err = json.Marshal(spec)
	}
	changed.Spec = v1alpha1.MCPServerSpec{}
	if err == nil {
		err = json.Unmarshal(data, &changed.Spec)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the spec: %w", err)
	}
	return changed, nil
}

func contentFields(spec *v1alpha1.MCPServerSpec) (fields map[string]any, err error) {
	data, err := runspec.ContentOf(spec)
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the spec: %w", err)
	}
	return fields, nil
}

// mayTake refuses fields that another field manager writes again from its own source: one that applies them, or one of
// the tools that update them from Git. What people write with kubectl is theirs to change.
func (r undoing) mayTake(u *unstructured.Unstructured, fields ...string) error {
	if r.force {
		return nil
	}
	for _, entry := range u.GetManagedFields() {
		applies := entry.Operation == metav1.ManagedFieldsOperationApply && entry.Manager != "kubectl"
		if entry.Subresource != "" || entry.Manager == undoManager || !applies && !slices.Contains(sources, entry.Manager) {
			continue
		}
		set, err := ownership.Fields(entry)
		if err != nil {
			return fmt.Errorf("reading %s: %w", title(u), err)
		}
		var theirs []string
		for _, field := range fields {
			path := fieldpath.MakePathOrDie("spec")
			below := set.WithPrefix(path[0])
			for name := range strings.SplitSeq(field, ".") {
				path = append(path, fieldpath.MakePathOrDie(name)...)
				below = below.WithPrefix(path[len(path)-1])
			}
			if set.Has(path) || !below.Empty() {
				theirs = append(theirs, "spec."+field)
			}
		}
		if len(theirs) > 0 {
			return fmt.Errorf("field manager %q owns %s of %s, and writes them again from its source: change them there, or "+
				"take them until then with --force-conflicts", safe(entry.Manager), strings.Join(theirs, ", "), title(u))
		}
	}
	return nil
}

// sources are field managers that write by Update what is in Git or in a release: Argo CD, Flux and Helm.
var sources = []string{
	"argocd-controller", "argocd-application-controller", "kustomize-controller", "helm-controller", "Helm", "helm",
}
