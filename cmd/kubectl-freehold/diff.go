package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// errOneOf says that two ways to name an object exclude each other.
var errOneOf = errors.New("name an object or a file, not both")

// ownersDiff is what diff-owners prints for programs.
type ownersDiff struct {
	Before  reference `json:"before"`
	After   reference `json:"after"`
	Removed []holding `json:"removed"`
	Added   []holding `json:"added"`
}

func (c *cli) diffOwners() *cobra.Command {
	out := output{}
	cmd := &cobra.Command{
		Use:   "diff-owners A B",
		Short: "Show which fields changed hands",
		Long: `Compare the owners of two objects: two moments of one, kept in files, or two
objects as KIND/NAME. A line with - is held in A only, one with + in B only.
Values do not count, nor does when they were written.

The exit code is 0 if there is no difference, 1 if there is one, and 2 after an
error.`,
		Example: `  # Two moments
  kubectl get mcp everything -o yaml --show-managed-fields > before.yaml
  helm upgrade ...
  kubectl freehold diff-owners before.yaml mcp/everything

  # Two objects
  kubectl freehold diff-owners deployment/one-proxy deployment/two-proxy`,
		Args: exactly(2, "two files or objects"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			before, err := c.either(args[0])
			if err != nil {
				return err
			}
			after, err := c.either(args[1])
			if err != nil {
				return err
			}
			return c.showDiff(before, after, out)
		},
	}
	out.add(cmd)
	return cmd
}

func (c *cli) showDiff(before, after *unstructured.Unstructured, out output) error {
	old, err := c.judge(before)
	if err != nil {
		return err
	}
	now, err := c.judge(after)
	if err != nil {
		return err
	}
	removed, added := without(old, now), without(now, old)
	if out.isTable() {
		err = c.printDiff(removed, added)
	} else {
		content := ownersDiff{Before: referenceTo(before), After: referenceTo(after), Removed: []holding{}, Added: []holding{}}
		for _, h := range removed {
			content.Removed = append(content.Removed, holdingOf(h))
		}
		for _, h := range added {
			content.Added = append(content.Added, holdingOf(h))
		}
		err = out.print(c.Out, "OwnersDiff", &content)
	}
	if err == nil && len(removed)+len(added) > 0 {
		return errWrong
	}
	return err
}

func (c *cli) printDiff(removed, added []ownership.Holding) error {
	tree := &node{}
	mark := func(sign string, holdings []ownership.Holding) {
		for _, h := range holdings {
			marked := holdOf(h, func(ownership.Holding) string { return "" })
			marked.mark = sign
			tree.add(h.Field, marked)
		}
	}
	mark("-", removed)
	mark("+", added)
	lines := [][]string{{" ", "FIELD", "MANAGER", "OPERATION", "SUBRESOURCE", "VERDICT"}}
	for _, r := range tree.rows(true) {
		for _, h := range r.holds {
			lines = append(lines, []string{h.mark, r.field, safe(h.manager), h.operation, h.subresource, paint(c.Out, h.verdict)})
		}
	}
	if len(lines) == 1 {
		_, err := fmt.Fprintln(c.Out, "The same owners hold the same fields.")
		return err
	}
	return table(c.Out, lines)
}

// without are the holdings that others lack.
func without(holdings, others []ownership.Holding) []ownership.Holding {
	return slices.DeleteFunc(slices.Clone(holdings), func(h ownership.Holding) bool {
		return slices.ContainsFunc(others, func(o ownership.Holding) bool {
			return h.Owner == o.Owner && h.Field.Equals(o.Field)
		})
	})
}
