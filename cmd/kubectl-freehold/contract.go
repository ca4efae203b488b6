package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// grants is what the commands about the contract print for programs.
type grants struct {
	Grants []grantView `json:"grants"`
}

// grantView is a grant in names and texts.
type grantView struct {
	Manager     string   `json:"manager"`
	Identity    string   `json:"identity"`
	APIVersion  string   `json:"apiVersion"`
	Kind        string   `json:"kind"`
	Subresource string   `json:"subresource,omitempty"`
	Names       []string `json:"names,omitempty"`
	Fields      []string `json:"fields"`
	Mode        string   `json:"mode"`
	Births      bool     `json:"births,omitempty"`
	Versioned   bool     `json:"versioned,omitempty"`
	Why         string   `json:"why"`
}

func viewOf(g ownership.Grant, fields []ownership.Path) grantView {
	v := grantView{
		Manager: string(g.Manager), Identity: g.Identity, APIVersion: g.Object.GroupVersion().String(), Kind: g.Object.Kind,
		Subresource: g.Object.Subresource, Names: g.Names, Mode: string(g.Mode), Births: g.Create, Versioned: g.Versioned, Why: g.Why,
	}
	for _, f := range fields {
		v.Fields = append(v.Fields, f.String())
	}
	return v
}

// whoCanWrite is the command that asks the contract about a field.
func (c *cli) whoCanWrite() *cobra.Command {
	out := output{}
	cmd := &cobra.Command{
		Use:   "who-can-write KIND.FIELD",
		Short: "Show which managers of Freehold may write a field",
		Long: `Show which managers of Freehold may write a field, or something in it, by the
ownership contract alone: no cluster is asked. Labels, annotations and items of
lists are written in brackets.`,
		Example: `  kubectl freehold who-can-write statefulset.spec.replicas
  kubectl freehold who-can-write 'mcpserver.status.conditions[type=Ready]'
  kubectl freehold who-can-write 'deployment.metadata.labels["app.kubernetes.io/name"]'`,
		Args:              exactly(1, "one field as KIND.FIELD"),
		ValidArgsFunction: c.completeField,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return c.showWriters(args[0], out)
		},
	}
	out.add(cmd)
	return cmd
}

func (c *cli) showWriters(question string, out output) error {
	kind, text, _ := strings.Cut(question, ".")
	if text == "" {
		return fmt.Errorf("%q names no field: write KIND.FIELD, for example statefulset.spec.replicas", question)
	}
	field, err := ownership.ParsePath(text)
	if err != nil {
		return err
	}
	known, found, content := []string{}, false, grants{Grants: []grantView{}}
	lines := [][]string{{"FIELD", "MANAGER", "MODE", "OBJECT", "NAMES", "WRITTEN BY", "WHAT FOR"}}
	for _, g := range c.contract.Grants {
		if !strings.EqualFold(g.Object.Kind, kind) && !strings.EqualFold(g.Object.Kind+"s", kind) {
			known = append(known, g.Object.Kind)
			continue
		}
		kind, found = g.Object.Kind, true
		fields := slices.DeleteFunc(slices.Clone(g.Fields), func(p ownership.Path) bool { return !p.Overlaps(field) })
		for _, f := range fields {
			lines = append(lines, []string{
				f.String(), string(g.Manager), string(g.Mode), g.Object.String(), strings.Join(g.Names, ","), g.Identity, g.Why,
			})
		}
		if len(fields) > 0 {
			content.Grants = append(content.Grants, viewOf(g, fields))
		}
	}
	switch {
	case !found:
		slices.Sort(known)
		return fmt.Errorf("the contract has no kind %q: it speaks of %s", kind, strings.Join(slices.Compact(known), ", "))
	case !out.isTable():
		return out.print(c.Out, "Grants", &content)
	case len(content.Grants) == 0:
		_, err := fmt.Fprintf(c.Out, "No manager of Freehold writes %s of %s: it is somebody else's.\n", text, kind)
		return err
	}
	return table(c.Out, lines)
}

// explain is the command that tells what a name stands for.
func (c *cli) explain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Tell what a name in managedFields stands for",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	out := output{}
	manager := &cobra.Command{
		Use:   "manager [NAME]",
		Short: "Show what a field manager of Freehold may write, and why",
		Long: `Show what a field manager of Freehold may write, and why, by the ownership
contract alone: no cluster is asked. Without a name all managers are shown. A
name may leave out the domain.`,
		Example: `  kubectl freehold explain manager
  kubectl freehold explain manager runner.freehold.dev/backend
  kubectl freehold explain manager scale`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return c.managers(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return c.showManagers(strings.Join(args, ""), out)
		},
	}
	out.add(manager)
	cmd.AddCommand(manager)
	return cmd
}

// managers are the names of all managers, in the contract's order.
func (c *cli) managers() []string {
	var names []string
	for _, g := range c.contract.Grants {
		if !slices.Contains(names, string(g.Manager)) {
			names = append(names, string(g.Manager))
		}
	}
	return names
}

func (c *cli) showManagers(name string, out output) error {
	content := grants{Grants: []grantView{}}
	var text strings.Builder
	for _, manager := range c.managers() {
		if name != "" && manager != name && !strings.HasSuffix(manager, "/"+name) {
			continue
		}
		for i, g := range c.contract.Of(ownership.Manager(manager)) {
			content.Grants = append(content.Grants, viewOf(g, g.Fields))
			if i == 0 {
				fmt.Fprintf(&text, "%s, written by %s\n", manager, g.Identity)
			}
			text.WriteString(describe(g))
		}
	}
	if len(content.Grants) == 0 {
		return fmt.Errorf("%q is no manager of Freehold: those are %s", name, strings.Join(c.managers(), ", "))
	}
	if !out.isTable() {
		return out.print(c.Out, "Grants", &content)
	}
	_, err := fmt.Fprint(c.Out, text.String())
	return err
}

// describe is a grant for people: what for, how, and the fields.
func describe(g ownership.Grant) string {
	var text strings.Builder
	fmt.Fprintf(&text, "  %s", g.Object)
	if len(g.Names) > 0 {
		fmt.Fprintf(&text, " %s", strings.Join(g.Names, ", "))
	}
	fmt.Fprintf(&text, ": %s\n    %s", g.Why, g.Mode)
	if g.Create {
		text.WriteString(", may create it")
	}
	if g.Versioned {
		text.WriteString(", may send the version that was read")
	}
	text.WriteString("\n")
	for _, f := range g.Fields {
		fmt.Fprintf(&text, "    - %s\n", f)
	}
	return text.String()
}
