package main

import (
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/ownership"
)

type fieldOwners struct {
	Object reference `json:"object"`
	Fields []holding `json:"fields"`
}

type reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

func referenceTo(u *unstructured.Unstructured) reference {
	return reference{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

type holding struct {
	Field       string `json:"field"`
	Manager     string `json:"manager"`
	Operation   string `json:"operation"`
	Subresource string `json:"subresource,omitempty"`
	Time        string `json:"time,omitempty"`
	Verdict     string `json:"verdict,omitempty"`
	// Grantee is the manager to whom the contract grants the field.
	Grantee string `json:"grantee,omitempty"`
}

func holdingOf(h ownership.Holding) holding {
	return holding{
		Field: ownership.Notation(h.Field), Manager: h.Manager, Operation: string(h.Operation), Subresource: h.Subresource,
		Time: stamp(h.Time), Verdict: string(h.Verdict), Grantee: string(h.Grantee),
	}
}

func (c *cli) owners() *cobra.Command {
	out, file := output{wide: true}, ""
	cmd := &cobra.Command{
		Use:   "owners (KIND NAME | KIND/NAME | -f FILE)",
		Short: "Show the fields of an object with their owners",
		Long: `Show the fields of an object of any kind with the owners of each: the field
manager, its operation (Apply or Update), the subresource it wrote through, and
how long ago it last changed what it owns. If everything below a field has the
same owners, only that field is shown. With -o wide every field is shown, with
times in place of ages, and with the manager to which the contract gives it.

On objects of Freehold each owner has a verdict:

  ours      a manager of Freehold applies this field, as the contract says
  foreign   another manager's field, which Freehold does not touch
  taken     another manager owns a field that the contract gives to Freehold alone
  yielded   another manager owns a field that Freehold may share
  stray     a manager of Freehold owns a field that the contract does not give it,
            or owns it by Update`,
		Example: `  # A server, and the backend that runs for it
  kubectl freehold owners mcp everything
  kubectl freehold owners statefulset/everything-backend

  # Every field, with times and grants
  kubectl freehold owners mcp everything -o wide

  # An object of any kind, for a program
  kubectl freehold owners -n kube-system deployment coredns -o json

  # An object that was kept in a file
  kubectl get mcp everything -o yaml --show-managed-fields > before.yaml
  kubectl freehold owners -f before.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if file != "" && len(args) > 0 {
				return errors.New("name an object or a file, not both")
			}
			return nil
		},
		ValidArgsFunction: c.completeObject,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			read := func() (*unstructured.Unstructured, error) { return c.object(args...) }
			if file != "" {
				read = func() (*unstructured.Unstructured, error) { return c.file(file) }
			}
			u, err := read()
			if err != nil {
				return err
			}
			return c.showOwners(u, out)
		},
	}
	out.add(cmd)
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with one object, - for the standard input")
	return cmd
}

func (c *cli) showOwners(u *unstructured.Unstructured, out output) error {
	holdings, err := c.judge(u)
	if err != nil {
		return err
	}
	if !out.isTable() {
		content := fieldOwners{Object: referenceTo(u), Fields: []holding{}}
		for _, h := range holdings {
			content.Fields = append(content.Fields, holdingOf(h))
		}
		return out.print(c.Out, "FieldOwners", &content)
	}
	when, header := age(c.now()), []string{"FIELD", "MANAGER", "OPERATION", "SUBRESOURCE", "AGE", "", "VERDICT"}
	if out.isWide() {
		when, header[4], header[5] = at, "TIME", "GRANTED TO"
	}
	tree := &node{}
	for _, h := range holdings {
		tree.add(h.Field, holdOf(h, when))
	}
	lines := [][]string{header}
	for _, r := range tree.rows(out.isWide()) {
		label := r.text(r.label)
		if len(r.holds) == 0 {
			lines = append(lines, []string{label, "", "", "", "", "", ""})
		}
		for _, h := range r.holds {
			grantee := ""
			if out.isWide() {
				grantee = string(h.grantee)
			}
			lines = append(lines, []string{
				label, safe(h.manager), h.operation, h.subresource, h.time, grantee,
				paint(c.Out, h.verdict),
			})
			label = ""
		}
	}
	return table(c.Out, lines)
}
