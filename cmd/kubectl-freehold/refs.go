package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/references"
)

type configReferences struct {
	Object     reference   `json:"object"`
	References []referring `json:"references"`
}

// referring is the other end of a reference: a workload of a configuration, or a configuration of a workload.
type referring struct {
	Object reference `json:"object"`
	// Content says whether the workload runs the configuration's present content.
	Content string `json:"content,omitempty"`
	Ready   string `json:"ready,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// The configuration's content that a workload runs: the present, an earlier one, or none yet.
const (
	contentCurrent = "current"
	contentOlder   = "older"
	contentNone    = "none"
)

func (c *cli) refs() *cobra.Command {
	out := output{}
	cmd := &cobra.Command{
		Use:   "refs (KIND NAME | KIND/NAME)",
		Short: "Show who refers to a configuration",
		Long: `Show all workloads that refer to a shared configuration, also those
that its status no longer lists, or the configurations that an MCPServer or an
MCPRemoteProxy refers to. The column CONTENT says what the workload runs with:

  current   what the configuration says now
  older     what the configuration said before
  none      nothing of this configuration yet

READY and REASON are those of the object in the line.`,
		Example: `  # The servers with these policies
  kubectl freehold refs mcpauthz company

  # The configurations of a server
  kubectl freehold refs mcp everything

  # For a program
  kubectl freehold refs mcpoidc/company -o json`,
		ValidArgsFunction: c.completeObject,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			u, err := c.object(args...)
			if err != nil {
				return err
			}
			ends, err := c.otherEnds(u)
			if err != nil {
				return err
			}
			return c.showRefs(out, u, ends)
		},
	}
	out.add(cmd)
	return cmd
}

func (c *cli) otherEnds(u *unstructured.Unstructured) ([]referring, error) {
	others, of := workloadKinds(), workloadsOf
	switch kind := u.GroupVersionKind().GroupKind(); {
	case slices.ContainsFunc(contract.Workloads(), func(w contract.Workload) bool { return w.Object.GroupKind() == kind }):
		others, of = configKinds(), configsOf
	case !slices.ContainsFunc(contract.Configs(),
		func(config contract.Config) bool { return config.Object.GroupKind() == kind }):
		names := []string{}
		for _, config := range contract.Configs() {
			names = append(names, config.Object.Kind)
		}
		for _, w := range contract.Workloads() {
			names = append(names, w.Object.Kind)
		}
		return nil, fmt.Errorf("%s is neither a configuration nor a workload: name one of the kinds %s", title(u),
			strings.Join(names, ", "))
	}
	found, err := c.within(u.GetNamespace(), false, "", others...)
	if err != nil {
		return nil, err
	}
	return of(u, found)
}

func workloadOf(u *unstructured.Unstructured) (kinds.Object, error) {
	kind, known := kinds.Named(u.GetKind())
	if !known {
		return nil, fmt.Errorf("%s is no workload", title(u))
	}
	object := kind.New()
	if err := decode(u, object); err != nil {
		return nil, err
	}
	return object, nil
}

func workloadsOf(config *unstructured.Unstructured, servers []*unstructured.Unstructured) ([]referring, error) {
	ends := []referring{}
	for _, u := range servers {
		server, err := workloadOf(u)
		if err != nil {
			return nil, err
		}
		if references.From(server, config.GetKind()) == config.GetName() {
			ends = append(ends, endOf(referenceTo(u), content(server, config), server.GetProxyStatus().Conditions))
		}
	}
	return ends, nil
}

// configsOf are the configurations of a server. A missing one has neither content nor conditions.
func configsOf(u *unstructured.Unstructured, configs []*unstructured.Unstructured) ([]referring, error) {
	server, err := workloadOf(u)
	if err != nil {
		return nil, err
	}
	ends := []referring{}
	for _, kind := range contract.Configs() {
		name := references.From(server, kind.Object.Kind)
		if name == "" {
			continue
		}
		i := slices.IndexFunc(configs, func(c *unstructured.Unstructured) bool {
			return c.GetKind() == kind.Object.Kind && c.GetName() == name
		})
		if i < 0 {
			gvk := kind.Object.GroupVersionKind
			ends = append(ends, referring{
				Object: reference{gvk.GroupVersion().String(), gvk.Kind, u.GetNamespace(), name},
				Reason: "NotFound",
			})
			continue
		}
		var config struct {
			Status v1alpha1.ConfigStatus `json:"status"`
		}
		if err := decode(configs[i], &config); err != nil {
			return nil, err
		}
		ends = append(ends, endOf(referenceTo(configs[i]), content(server, configs[i]), config.Status.Conditions))
	}
	return ends, nil
}

func decode(u *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
		return fmt.Errorf("reading %s: %w", title(u), err)
	}
	return nil
}

// content is what a server runs of a configuration, empty if the configuration does not report its own.
func content(server kinds.Object, config *unstructured.Unstructured) string {
	now, _, err := unstructured.NestedString(config.Object, "status", "hash")
	if err != nil || now == "" {
		return ""
	}
	claimed := server.GetProxyStatus().Workload
	if claimed == nil {
		return contentNone
	}
	for _, has := range claimed.Configs {
		switch {
		case has.Kind != config.GetKind() || has.Name != config.GetName():
		case has.Hash == now:
			return contentCurrent
		default:
			return contentOlder
		}
	}
	return contentNone
}

func endOf(object reference, content string, conditions []metav1.Condition) referring {
	end := referring{Object: object, Content: content}
	for _, t := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionSuspended} {
		if c := meta.FindStatusCondition(conditions, t); c != nil {
			end.Reason = c.Reason
			if t == v1alpha1.ConditionReady {
				end.Ready = string(c.Status)
			}
			break
		}
	}
	return end
}

func (c *cli) showRefs(out output, u *unstructured.Unstructured, ends []referring) error {
	slices.SortFunc(ends, func(a, b referring) int {
		return strings.Compare(a.Object.Kind+"/"+a.Object.Name, b.Object.Kind+"/"+b.Object.Name)
	})
	if !out.isTable() {
		return out.print(c.Out, "ConfigReferences", &configReferences{Object: referenceTo(u), References: ends})
	}
	if len(ends) == 0 {
		fmt.Fprintln(c.ErrOut, "no references")
		return nil
	}
	lines := [][]string{{"OBJECT", "CONTENT", "READY", "REASON"}}
	for _, end := range ends {
		lines = append(lines, []string{end.Object.Kind + "/" + end.Object.Name, end.Content, end.Ready, safe(end.Reason)})
	}
	return table(c.Out, lines)
}
