// Command docs writes what is generated from the contract: docs/ownership.md, in docs/architecture.md the table under
// "Who writes what", the admission policies config/policy/managers-*.yaml, the roles config/rbac/*.yaml, and the lists
// of kinds in files by hand (package lists). Run by `make generate` from the root of the repository. api.go writes
// docs/api.md from the CRDs.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/ownership/admission"
	"github.com/freehold-dev/freehold/apis/ownership/rbac"
	"github.com/freehold-dev/freehold/hack/docs/lists"
)

const (
	ownershipPage    = "docs/ownership.md"
	architecturePage = "docs/architecture.md"
)

// The lines around the generated table.
const (
	tableBegin = "<!-- generated from apis/contract -->\n```\n"
	tableEnd   = "```\n<!-- end of what is generated -->\n"
)

// preface begins the page about ownership.
const preface = `# Who writes what

Generated from the table in ` + "`apis/contract`" + ` by ` + "`make generate`" + `.

Freehold writes fields by server-side apply under one of the field managers
below, and states only fields of that manager's grant. What is in no grant is
not ours and survives every pass. Deletions, take-overs and Events are no applies:
they stand below the tables. The leader's Lease is a lock, which client-go
updates, and not in the table ([why](adr/0021-the-lease-is-a-lock.md)).

`

// generated begins what people should not edit; %s is the page about it.
const generated = "# Generated from the contract in apis/contract by `make generate`; %s explains it.\n"

func main() {
	if err := run(contract.Freehold()); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

func run(c ownership.Contract) error {
	page, err := os.ReadFile(architecturePage)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(page), tableBegin)
	_, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no place for the table of who writes what: put back the lines %q and %q", architecturePage,
			tableBegin, tableEnd)
	}
	if err := write(architecturePage, before+tableBegin+table(c)+tableEnd+after); err != nil {
		return err
	}
	if err := write(ownershipPage, preface+c.Markdown()); err != nil {
		return err
	}
	if err := policies(); err != nil {
		return err
	}
	if err := roles(c); err != nil {
		return err
	}
	if err := kinds(); err != nil {
		return err
	}
	return api()
}

// policies writes config/policy anew, but for the policies written by hand.
func policies() error {
	compiled, err := admission.Compile(contract.Narrowed(), contract.Policies())
	if err != nil {
		return err
	}
	const pattern = "config/policy/managers-%s.yaml"
	if err := remove(fmt.Sprintf(pattern, "*")); err != nil {
		return err
	}
	for _, p := range compiled {
		text, err := p.YAML()
		if err != nil {
			return err
		}
		if err := write(fmt.Sprintf(pattern, p.Name), fmt.Sprintf(generated, "docs/policies.md")+string(text)); err != nil {
			return err
		}
	}
	return nil
}

// capitals are in the names of identities of which there is one for a server: their roles the operator makes.
var capitals = regexp.MustCompile("[A-Z]")

// roles writes config/rbac anew.
func roles(c ownership.Contract) error {
	const pattern = "config/rbac/%s.yaml"
	if err := remove(fmt.Sprintf(pattern, "*")); err != nil {
		return err
	}
	for _, identity := range c.Identities() {
		if capitals.MatchString(identity) {
			continue
		}
		text, err := rbac.YAML(c, identity, contract.Policies().Namespace)
		if err != nil {
			return err
		}
		if err := write(fmt.Sprintf(pattern, identity), fmt.Sprintf(generated, "docs/rbac.md")+string(text)); err != nil {
			return err
		}
	}
	return nil
}

// kinds writes anew what files by hand have of each kind.
func kinds() error {
	for _, name := range lists.Files() {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		written, err := lists.Written(name, string(text), contract.Kinds())
		if err != nil {
			return err
		}
		if err := write(name, written); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the files of a pattern, so that none is left of what the contract no longer has.
func remove(pattern string) error {
	old, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

func write(name, text string) error { return os.WriteFile(name, []byte(text), 0o644) } //nolint:gosec // a page for everybody

// table has a line for each grant, without its fields.
func table(c ownership.Contract) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "object\tmanager\tsends\twhat for")
	for _, g := range c.Grants {
		sends := "an apply"
		switch {
		case g.Once:
			sends = "a create"
		case g.Versioned && g.Create:
			sends = "a create, or at a version"
		case g.Versioned:
			sends = "at a version"
		case g.Create:
			sends = "a create, or an apply"
		}
		what := g.Why
		if len(g.Names) > 0 {
			what += " (" + strings.Join(g.Names, ", ") + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", g.Object, g.Manager, sends, what)
	}
	_ = w.Flush()
	return b.String()
}
