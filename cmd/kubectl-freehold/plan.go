package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/runspec"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// planning is what plan was told.
type planning struct {
	files   []string
	manager string
	force   bool
}

// planned is what an apply of one object would change.
type planned struct {
	Object reference `json:"object"`
	// New says that there is no such object yet.
	New     bool     `json:"new,omitempty"`
	Changes []change `json:"changes"`
	// Proxy and Backend are the fields that replace pods of the proxy and of the backend, empty where none are replaced.
	Proxy   []string `json:"proxy,omitempty"`
	Backend []string `json:"backend,omitempty"`
	// Reads are the ConfigMaps and Secrets that new pods of the backend read, as they are then.
	Reads []string `json:"reads,omitempty"`
	// Strategy is how pods of the backend would be replaced: in place, or by others beside them.
	Strategy v1alpha1.RolloutStrategy `json:"strategy,omitempty"`
	// ProxyReplicas and BackendReplicas are how many pods there are to be, by spec.suspend too.
	ProxyReplicas   scaling `json:"proxyReplicas,omitzero"`
	BackendReplicas scaling `json:"backendReplicas,omitzero"`
	// Problems are what Freehold would not accept.
	Problems []string `json:"problems,omitempty"`
}

// scaling is a number of pods before and after.
type scaling struct {
	From int32 `json:"from"`
	To   int32 `json:"to"`
}

type rolloutPlan struct {
	Objects []planned `json:"objects"`
}

func (c *cli) plan() *cobra.Command {
	p, out := planning{manager: "kubectl"}, output{}
	cmd := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show what an apply would change, before it is done",
		Long: `Send the MCPServers and MCPRemoteProxies of files to the API server as a dry run of a
server-side apply, with your rights, and show for each which fields of spec would change,
whether pods of the proxy and of the backend would be replaced and by which fields (of a
backend also whether others come up beside them before, see spec.rollout.strategy), and
what Freehold would not accept of it (condition Accepted). Nothing is written, and the
operator takes no part: what it would make of the spec is computed here, with the shared
configurations as they are in the cluster.

Objects of other kinds are named and left out. A change of the proxy alone replaces no
pod of the backend. Fields that another field manager owns are an error, as for kubectl
apply --server-side, unless --force-conflicts takes them. An object that is applied
without server-side apply is an error: what the file leaves out would not be seen. The
defaults that the operator has for proxies, proxyDefaults of the chart, are not known
here: for spec.proxy the plan takes the built-in ones, and says so.

The exit code is 0 if nothing would change, 1 if something would, and 2 after an error
or where something would not be accepted.`,
		Example: `  # Files and folders
  kubectl freehold plan -f servers/

  # A pipe
  kustomize build overlays/prod | kubectl freehold plan -f -

  # As Argo CD applies it with ServerSideApply=true, for a program
  kubectl freehold plan -f servers.yaml --field-manager argocd-controller --force-conflicts -o json`,
		Args: noObject,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if len(p.files) == 0 {
				return errors.New("name files with -f, or - for the standard input")
			}
			return c.planAll(cmd.Context(), p, out)
		},
	}
	out.add(cmd)
	flags := cmd.Flags()
	flags.StringSliceVarP(&p.files, "filename", "f", nil, "files or folders to read, - for the standard input")
	flags.StringVar(&p.manager, "field-manager", p.manager, "field manager that would apply")
	flags.BoolVar(&p.force, "force-conflicts", false, "take fields that another field manager owns")
	return cmd
}

// planAll plans each object by itself, so that one that is refused hides no other.
func (c *cli) planAll(ctx context.Context, p planning, out output) error {
	builder := resource.NewLocalBuilder().Unstructured().ContinueOnError().Flatten()
	if len(p.files) == 1 && p.files[0] == "-" {
		builder = builder.Stream(c.In, "the standard input")
	} else {
		builder = builder.FilenameParam(false, &resource.FilenameOptions{Filenames: p.files, Recursive: true})
	}
	found, failed := all(builder.Do())
	made := rolloutPlan{Objects: []planned{}}
	for _, u := range found {
		if !isWorkload(u) {
			fmt.Fprintf(c.ErrOut, "left out: %s\n", safe(title(u)))
			continue
		}
		one, err := c.planOne(ctx, p, u)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		made.Objects = append(made.Objects, *one)
	}
	if err := c.showPlan(out, made); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	return made.outcome()
}

func isWorkload(u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(contract.Workloads(), func(w contract.Workload) bool {
		return w.Object.GroupVersionKind == u.GroupVersionKind()
	})
}

// outcome is errWrong where something changes.
func (p rolloutPlan) outcome() error {
	var outcome error
	for _, one := range p.Objects {
		if len(one.Problems) > 0 {
			return errors.New("not all would be accepted")
		}
		if one.New || len(one.Changes) > 0 {
			outcome = errWrong
		}
	}
	return outcome
}

func (c *cli) showPlan(out output, made rolloutPlan) error {
	if !out.isTable() {
		return out.print(c.Out, "RolloutPlan", &made)
	}
	for _, one := range made.Objects {
		name := inNamespace(one.Object) + one.Object.Kind + "/" + one.Object.Name
		switch {
		case one.New:
			fmt.Fprintf(c.Out, "%s is new\n", name)
		case len(one.Changes) == 0:
			fmt.Fprintf(c.Out, "%s does not change\n", name)
		default:
			fmt.Fprintf(c.Out, "%s changes\n", name)
		}
		for _, change := range one.Changes {
			fmt.Fprintln(c.Out, "  "+change.String())
		}
		for _, problem := range one.Problems {
			fmt.Fprintln(c.Out, "  not accepted: "+safe(problem))
		}
		if !one.New && len(one.Changes) > 0 && len(one.Problems) == 0 {
			c.showPods("proxy", one.Proxy, one.ProxyReplicas, "")
			if one.Object.Kind == contract.MCPServer.Kind {
				c.showPods("backend", one.Backend, one.BackendReplicas, one.Strategy)
				if len(one.Reads) > 0 {
					fmt.Fprintf(c.Out, "  they read, as it is then: %s\n", safe(strings.Join(one.Reads, ", ")))
				}
			}
			if slices.Contains(topFields(one.Changes), "proxy") {
				fmt.Fprintln(c.Out, "  by the built-in defaults of spec.proxy: proxyDefaults of the chart are not known here")
			}
		}
	}
	return nil
}

func (c *cli) showPods(of string, by []string, replicas scaling, strategy v1alpha1.RolloutStrategy) {
	switch {
	case replicas.To == 0 && replicas.From == 0:
		fmt.Fprintf(c.Out, "  the %s has no pods, and gets none\n", of)
		return
	case replicas.To == 0:
		fmt.Fprintf(c.Out, "  pods of the %s all end\n", of)
		return
	case replicas.From == 0:
		fmt.Fprintf(c.Out, "  pods of the %s start: %d\n", of, replicas.To)
		return
	case replicas.From != replicas.To:
		fmt.Fprintf(c.Out, "  pods of the %s are scaled from %d to %d\n", of, replicas.From, replicas.To)
	}
	switch {
	case len(by) > 0 && strategy == v1alpha1.StrategySuccessive:
		fmt.Fprintf(c.Out, "  pods of the %s are replaced by others that come up beside those that serve, by %s\n", of,
			strings.Join(by, ", "))
	case len(by) > 0:
		fmt.Fprintf(c.Out, "  pods of the %s are replaced, by %s\n", of, strings.Join(by, ", "))
	case replicas.From == replicas.To:
		fmt.Fprintf(c.Out, "  pods of the %s stay\n", of)
	}
}

// planOne compares what is stored with what would be.
func (c *cli) planOne(ctx context.Context, p planning, u *unstructured.Unstructured) (*planned, error) {
	if u.GetNamespace() == "" {
		namespace, err := c.namespace()
		if err != nil {
			return nil, err
		}
		u.SetNamespace(namespace)
	}
	mode := ownership.Shared
	if p.force {
		mode = ownership.Exclusive
	}
	applier, reader, err := c.applierOf(u.GroupVersionKind(), true, ownership.Contract{Grants: []ownership.Grant{{
		Manager: ownership.Manager(p.manager), Object: ownership.Object{GroupVersionKind: u.GroupVersionKind()}, Mode: mode,
		Fields: []ownership.Path{{}},
	}}})
	if err != nil {
		return nil, err
	}
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(u.GroupVersionKind())
	if err := reader.Get(ctx, client.ObjectKeyFromObject(u), before); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading %s: %w", title(u), err)
	} else if apierrors.IsNotFound(err) {
		before = nil
	} else if err := appliedElsewhere(before, p.manager); err != nil {
		return nil, err
	}
	u.SetManagedFields(nil)
	unstructured.RemoveNestedField(u.Object, "status")
	answer, err := applier.As(ownership.Manager(p.manager)).Preview(ctx, client.ApplyConfigurationFromUnstructured(u))
	if conflicts := apply.Conflicts(err); conflicts != nil {
		return nil, fmt.Errorf("%s: %w: change them there, or take them with --force-conflicts", title(u), conflicts[0])
	}
	if err != nil {
		return nil, err
	}
	after := &unstructured.Unstructured{}
	if err := after.UnmarshalJSON(answer); err != nil {
		return nil, fmt.Errorf("reading the answer about %s: %w", title(u), err)
	}
	return c.compare(ctx, reader, before, after)
}

// appliedElsewhere refuses an object whose fields are written by Update from a manifest, as kubectl apply and Argo CD
// do without server-side apply: their apply removes what the manifest no longer has, and a server-side one does not.
func appliedElsewhere(u *unstructured.Unstructured, manager string) error {
	by := ""
	for _, entry := range u.GetManagedFields() {
		switch {
		case entry.Subresource != "":
		case entry.Operation == metav1.ManagedFieldsOperationApply && entry.Manager == manager:
			return nil
		case entry.Operation == metav1.ManagedFieldsOperationUpdate &&
			(entry.Manager == "kubectl-client-side-apply" || slices.Contains(sources, entry.Manager)):
			by = entry.Manager
		}
	}
	if by == "" {
		return nil
	}
	return fmt.Errorf("field manager %q writes %s without server-side apply: which fields an apply removes because the "+
		"file leaves them out is not seen here", safe(by), title(u))
}

// compare plans a change of an object, nil if it is new.
func (c *cli) compare(
	ctx context.Context, reader client.Reader, before, after *unstructured.Unstructured,
) (*planned, error) {
	made := &planned{Object: referenceTo(after), New: before == nil, Changes: []change{}}
	if before == nil {
		before = &unstructured.Unstructured{Object: map[string]any{}}
	}
	made.Changes = append(made.Changes, changesOf("spec", before.Object["spec"], after.Object["spec"])...)
	if made.New {
		made.Changes = []change{}
	}
	next, err := c.renderedOf(ctx, reader, after)
	if err != nil {
		return nil, err
	}
	for _, problem := range next.Problems {
		made.Problems = append(made.Problems, problem.String())
	}
	if made.New || len(made.Changes) == 0 || len(made.Problems) > 0 {
		return made, nil
	}
	had, err := c.renderedOf(ctx, reader, before)
	if err != nil {
		return nil, err
	}
	if err := made.scale(before, after); err != nil {
		return nil, err
	}
	for _, field := range topFields(made.Changes) {
		alone := before.DeepCopy()
		setField(alone, after, field)
		with, err := c.renderedOf(ctx, reader, alone)
		if err != nil {
			return nil, err
		}
		if with.Hash != had.Hash && next.Hash != had.Hash {
			made.Proxy = append(made.Proxy, "spec."+field)
		}
		if with.Content.Rendering.Backend != had.Content.Rendering.Backend &&
			next.Content.Rendering.Backend != had.Content.Rendering.Backend {
			made.Backend, made.Strategy = append(made.Backend, "spec."+field), next.Strategy
		}
	}
	if len(made.Backend) > 0 && made.BackendReplicas.To > 0 {
		made.Reads = namesOf(runspec.References(next.Content.Backend))
	}
	return made, nil
}

// scale says how many pods there are before and after. How many proxies the operator has by default is not known.
func (p *planned) scale(before, after *unstructured.Unstructured) error {
	old, err := workloadOf(before)
	if err != nil {
		return err
	}
	next, err := workloadOf(after)
	if err != nil {
		return err
	}
	p.ProxyReplicas = scaling{workload.ProxyReplicas(old, 0), workload.ProxyReplicas(next, 0)}
	if p.Object.Kind == contract.MCPServer.Kind {
		p.BackendReplicas = scaling{kinds.BackendReplicas(old), kinds.BackendReplicas(next)}
	}
	return nil
}

// renderedOf is what the operator makes of an object. Nothing is known of its release, which is the same before and
// after, and whose defaults for proxies are taken to be the built-in ones.
func (c *cli) renderedOf(
	ctx context.Context, reader client.Reader, u *unstructured.Unstructured,
) (workload.Rendered, error) {
	object, err := workloadOf(u)
	if err != nil {
		return workload.Rendered{}, err
	}
	in := workload.Input{Object: object}
	for _, ref := range object.ConfigRefs() {
		kind := registry.Content(ref.Kind)
		if kind == nil {
			continue
		}
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(kind.Row().Object.GroupVersionKind)
		err := reader.Get(ctx, client.ObjectKey{Namespace: object.GetNamespace(), Name: ref.Name}, stored)
		if apierrors.IsNotFound(err) {
			continue // a problem of the spec
		}
		config := kind.New()
		if err == nil {
			err = decode(stored, config)
		}
		if err != nil {
			return workload.Rendered{}, fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
		}
		in.Configs = append(in.Configs, registry.Read(config)...)
	}
	return workload.Render(in, podtemplate.Release{RunnerImage: "runner"}), nil
}
