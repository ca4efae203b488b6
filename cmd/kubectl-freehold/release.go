package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/apply"
)

type releasing struct {
	manager, subresource, to string
	dryRun                   dryRun
	yes                      bool
}

func (c *cli) release() *cobra.Command {
	r := releasing{}
	cmd := &cobra.Command{
		Use:   "release (KIND NAME | KIND/NAME) --manager NAME [--to NAME]",
		Short: "Give up the fields of a field manager",
		Long: `Give up all fields that a field manager owns in an object, by an empty apply
under its name. Fields that another manager owns too stay as they are; the
others are removed, or get their default. The command shows both lists first,
and asks before it writes.

With --to, another field manager gets all of these fields, by an apply of their
present values, and nothing is removed.

Fields that are owned by Update cannot be given up; another manager has to take
them over. A running operator or runner applies its fields again, also those
that --to gave to another manager. So release the fields of Freehold's managers
only when neither runs any more: docs/take-over.md says how.`,
		Example: `  # The fields that a deployment tool owns in Freehold's proxy
  kubectl freehold release deployment everything-proxy --manager argocd-controller

  # A proxy to keep after its server was deleted with --cascade=orphan
  kubectl freehold release deployment everything-proxy --manager mcpserver.freehold.dev/children --to me

  # The finalizer of a server whose operator is gone for good
  kubectl freehold release mcp everything --manager mcpserver.freehold.dev/finalizer

  # A condition that a user applied as field manager "me"
  kubectl freehold release mcp everything --manager me --subresource status --yes`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name an object as KIND NAME or KIND/NAME; see --help for examples")
			}
			return nil
		},
		ValidArgsFunction: c.completeObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			u, err := c.object(args...)
			if err != nil {
				return err
			}
			if r.to != "" {
				return c.handOver(cmd.Context(), u, r)
			}
			return c.handBack(cmd.Context(), u, r)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&r.manager, "manager", "", "field manager that gives up its fields")
	flags.StringVar(&r.to, "to", "",
		"field manager that gets them; without it, fields that no other manager owns are removed")
	flags.StringVar(&r.subresource, "subresource", "", "subresource through which they were written, such as status")
	flags.Var(&r.dryRun, "dry-run", "none, or server: send the request as a dry run, which changes nothing")
	flags.Lookup("dry-run").NoOptDefVal = "server"
	flags.BoolVarP(&r.yes, "yes", "y", false, "do not ask before writing")
	if err := cmd.MarkFlagRequired("manager"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

// dryRun is a flag as kubectl's. Only the API server judges a request.
type dryRun bool

// String implements pflag.Value.
func (d *dryRun) String() string {
	if *d {
		return "server"
	}
	return "none"
}

// Set implements pflag.Value.
func (d *dryRun) Set(text string) error {
	switch text {
	case "server", "true":
		*d = true
	case "none", "false":
		*d = false
	default:
		return errors.New("write none or server")
	}
	return nil
}

// Type implements pflag.Value.
func (d *dryRun) Type() string { return "string" }

func (c *cli) handBack(ctx context.Context, u *unstructured.Unstructured, r releasing) error {
	holdings, err := c.judge(u)
	if err != nil {
		return err
	}
	stays, goes := parted(holdings, ownership.Owner{
		Manager: r.manager, Operation: metav1.ManagedFieldsOperationApply, Subresource: r.subresource,
	})
	if stays.Empty() && goes.Empty() {
		return notHeld(u, r)
	}
	c.list("These fields stay, because another manager owns them too", stays)
	c.list("These fields are removed, or get their default", goes)
	if err := c.ask(r, fmt.Sprintf("Release the fields of %q in %s?", safe(r.manager), title(u))); err != nil {
		return err
	}
	applier, _, err := c.applier(u, r)
	if err != nil {
		return err
	}
	if err := applier.As(ownership.Manager(r.manager)).Release(ctx, u); err != nil {
		return err
	}
	done := "released"
	if r.dryRun {
		done = "could be released (dry run)"
	}
	_, err = fmt.Fprintf(c.Out, "%s %s\n", title(u), done)
	return err
}

// parted divides the fields of owner into those that others hold too, and those that nobody else holds.
func parted(holdings []ownership.Holding, owner ownership.Owner) (stays, goes *fieldpath.Set) {
	stays, goes = &fieldpath.Set{}, &fieldpath.Set{}
	others := &fieldpath.Set{}
	for _, h := range holdings {
		if h.Owner != owner {
			others.Insert(h.Field)
		}
	}
	for _, h := range holdings {
		switch {
		case h.Owner != owner:
		case others.Has(h.Field):
			stays.Insert(h.Field)
		default:
			goes.Insert(h.Field)
		}
	}
	return stays, goes
}

// notHeld says what the manager holds, since that is not what is asked for.
func notHeld(u *unstructured.Unstructured, r releasing) error {
	var others []string
	for _, entry := range u.GetManagedFields() {
		through := ""
		if entry.Subresource != "" {
			through = " --subresource " + entry.Subresource
		}
		switch {
		case entry.Manager == r.manager && entry.Operation == metav1.ManagedFieldsOperationUpdate:
			return fmt.Errorf("%q owns fields of %s by Update%s, which an apply cannot give up: apply them by another manager "+
				"with --server-side --force-conflicts",
				r.manager, title(u), through)
		case entry.Operation == metav1.ManagedFieldsOperationApply:
			others = append(others, fmt.Sprintf("--manager %q%s", entry.Manager, through))
		}
	}
	return fmt.Errorf("%q owns no fields of %s by apply; these do: %s", r.manager, title(u), strings.Join(others, ", "))
}

func (c *cli) list(what string, fields *fieldpath.Set) {
	if fields.Empty() {
		return
	}
	fmt.Fprintf(c.Out, "%s:\n", what)
	fields.Iterate(func(field fieldpath.Path) { fmt.Fprintln(c.Out, "  "+ownership.Notation(field)) })
}

// ask waits for a line, and returns an error unless it is a yes.
func (c *cli) ask(r releasing, question string) error {
	if r.yes || bool(r.dryRun) {
		return nil
	}
	fmt.Fprint(c.Out, question+" [y/N] ")
	answer := bufio.NewScanner(c.In)
	answer.Scan()
	switch strings.ToLower(strings.TrimSpace(answer.Text())) {
	case "y", "yes":
		return nil
	}
	return errors.Join(answer.Err(), errors.New("nothing was changed"))
}

// applier is a writer with a contract for this one command: the manager may release what it has, and state nothing;
// the new owner may state anything.
func (c *cli) applier(u *unstructured.Unstructured, r releasing) (*apply.Applier, client.Client, error) {
	object := ownership.Object{GroupVersionKind: u.GroupVersionKind(), Subresource: r.subresource}
	return c.applierOf(object.GroupVersionKind, bool(r.dryRun), ownership.Contract{Grants: []ownership.Grant{
		{Manager: ownership.Manager(r.manager), Object: object, Mode: ownership.Shared},
		{
			Manager: ownership.Manager(r.to), Object: object, Mode: ownership.Shared, Versioned: true,
			Fields: []ownership.Path{{}},
		},
	}})
}

// applierOf is a writer of one kind within a contract, and its client.
func (c *cli) applierOf(
	kind schema.GroupVersionKind, dryRun bool, allows ownership.Contract,
) (*apply.Applier, client.Client, error) {
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, nil, err
	}
	mapper, err := c.flags.ToRESTMapper()
	if err != nil {
		return nil, nil, err
	}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, kind.GroupVersion())
	server, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, nil, fmt.Errorf("connecting: %w", err)
	}
	if dryRun {
		server = client.NewDryRunClient(server)
	}
	// The values are live, so no schema has to judge them.
	converter := apply.NewConverter(scheme,
		map[string]managedfields.TypeConverter{kind.Group: managedfields.NewDeducedTypeConverter()})
	return apply.New(server, server, converter, allows), server, nil
}
