package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// serverLabel is on everything that belongs to a server; the contract grants it.
const serverLabel = "freehold.dev/server"

// pageSize is that of kubectl.
const pageSize = 500

type ownershipAudit struct {
	Servers  int       `json:"servers"`
	Objects  int       `json:"objects"`
	Findings []finding `json:"findings"`
}

type finding struct {
	Object  reference `json:"object"`
	holding `json:",inline"`
}

func (c *cli) audit() *cobra.Command {
	out, everywhere := output{}, false
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show only what the contract forbids",
		Long: `Check all MCPServers and MCPRemoteProxies of a namespace, or of all namespaces, with all their
objects and all shared configurations, and show only what the ownership contract forbids: fields with the
verdict taken or stray, which "kubectl freehold owners --help" explains.

The exit code is 0 if nothing is wrong, 1 if something is, and 2 if something
could not be read. It needs the right to list the kinds of what belongs to servers, which
the cluster's role view does not give for roles and rolebindings: what is missing
is named, and the rest is shown.`,
		Example: `  # The namespace of the kubeconfig
  kubectl freehold audit

  # The whole cluster, in a pipeline
  kubectl freehold audit -A || exit 1

  # For a program
  kubectl freehold audit -n tools -o json`,
		Args: noObject,
		RunE: func(*cobra.Command, []string) error {
			if err := out.check(); err != nil {
				return err
			}
			servers, children, err := c.installed(everywhere)
			if len(servers)+len(children) == 0 && err == nil && !everywhere {
				err = c.missing()
			}
			return c.judgeAll(out, servers, children, err)
		},
	}
	out.add(cmd)
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "look at the objects of all namespaces")
	return cmd
}

// judgeAll prints the findings; unread is why the input is incomplete.
func (c *cli) judgeAll(out output, servers, children []*unstructured.Unstructured, unread error) error {
	if lacks := lacking(unread); lacks != "" {
		fmt.Fprintln(c.ErrOut, "The audit is not whole. "+lacks)
	}
	if len(servers)+len(children) == 0 && unread != nil {
		return unread
	}
	content := ownershipAudit{Servers: len(servers), Objects: len(servers) + len(children), Findings: []finding{}}
	lines := [][]string{{"NAMESPACE", "OBJECT", "FIELD", "MANAGER", "OPERATION", "AGE", "GRANTED TO", "VERDICT"}}
	for _, u := range append(servers, children...) {
		holdings, err := c.judge(u)
		if err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		tree := &node{}
		for _, h := range holdings {
			if h.Verdict.Wrong() {
				tree.add(h.Field, holdOf(h, age(c.now())))
				content.Findings = append(content.Findings, finding{Object: referenceTo(u), holding: holdingOf(h)})
			}
		}
		for _, r := range tree.rows(true) {
			for _, h := range r.holds {
				lines = append(lines, []string{
					u.GetNamespace(), title(u), r.field, safe(h.manager), h.operation, h.time, string(h.grantee),
					paint(c.Out, h.verdict),
				})
			}
		}
	}
	if err := c.showAudit(out, content, lines); err != nil {
		return err
	}
	switch {
	case unread != nil:
		return unread
	case len(content.Findings) > 0:
		return errWrong
	}
	return nil
}

// showAudit also prints how much was examined, so that an empty namespace is not mistaken for a sound one.
func (c *cli) showAudit(out output, content ownershipAudit, lines [][]string) error {
	switch {
	case !out.isTable():
		if err := out.print(c.Out, "OwnershipAudit", &content); err != nil {
			return err
		}
	case len(content.Findings) > 0:
		if err := table(c.Out, lines); err != nil {
			return err
		}
	}
	fmt.Fprintf(c.ErrOut, "servers: %d, objects: %d, fields with a wrong owner: %d\n",
		content.Servers, content.Objects, len(content.Findings))
	return nil
}

// installed reads the servers and their objects. Beside an error it returns what it could read.
func (c *cli) installed(everywhere bool) (servers, children []*unstructured.Unstructured, err error) {
	servers, err = c.listed(everywhere, workloadKinds()...)
	if err != nil {
		return nil, nil, err
	}
	children, unread := c.selected(everywhere, serverLabel, audited(c.childKinds(), servers)...)
	configs, err := c.listed(everywhere, configKinds()...)
	return servers, append(children, configs...), errors.Join(unread, err)
}

// audited are the kinds of children that servers may have: the cluster's roles give few people the right to list
// HTTPRoutes.
func audited(kinds []string, servers []*unstructured.Unstructured) []string {
	return slices.DeleteFunc(kinds, func(kind string) bool {
		return kind == argument(contract.HTTPRoute) && !slices.ContainsFunc(servers, mayHaveRoute)
	})
}

// mayHaveRoute reports whether a server asks for an HTTPRoute, or tells of one.
func mayHaveRoute(u *unstructured.Unstructured) bool {
	server, err := reachedOf(u)
	return err != nil || server.Spec.Proxy != nil && server.Spec.Proxy.HTTPRoute != nil ||
		meta.FindStatusCondition(server.status.Conditions, v1alpha1.ConditionPublished) != nil
}

func workloadKinds() []string {
	var kinds []string
	for _, w := range contract.Workloads() {
		kinds = append(kinds, argument(w.Object))
	}
	return kinds
}

func configKinds() []string {
	var kinds []string
	for _, config := range contract.Configs() {
		kinds = append(kinds, argument(config.Object))
	}
	return kinds
}

// childKinds are the kinds of children in the contract, except those written once: others may change them, and the
// user need not have the right to list Secrets; and except those that the cluster lacks.
func (c *cli) childKinds() []string {
	var kinds []string
	for _, g := range c.contract.Grants {
		if kind := argument(g.Object); len(g.Names) > 0 && !g.Once && !slices.Contains(kinds, kind) &&
			(g.Object != contract.HTTPRoute || c.serves(g.Object)) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// serves reports whether the cluster has a kind; also where it cannot be asked, which the request for objects says.
func (c *cli) serves(o ownership.Object) bool {
	mapper, err := c.flags.ToRESTMapper()
	if err != nil {
		return true
	}
	_, err = mapper.RESTMapping(o.GroupKind(), o.Version)
	return !meta.IsNoMatchError(err)
}

// argument is a kind as Kind.version.group, where the group may be empty.
func argument(o ownership.Object) string { return o.Kind + "." + o.Version + "." + o.Group }
