package ownership

import (
	"fmt"
	"strings"
)

// Markdown is the contract for people: a section for each object, a glossary, who deletes, and what else is allowed.
// Its headings are of the second level.
func (c Contract) Markdown() string {
	var b strings.Builder
	for _, object := range c.objects() {
		fmt.Fprintf(&b, "## %s\n\n| manager | identity | mode | writes | what for |\n|---|---|---|---|---|\n", object)
		for _, g := range c.Grants {
			if g.Object == object {
				b.WriteString(g.row())
			}
		}
		b.WriteString("\n")
	}
	b.WriteString(`## Notes

- *exclusive*: the apply is forced; the field is this manager's alone. *shared*: it is not, and a conflict is reported.
- *creates* lets the manager create the object, with a resourceVersion that no object has, so that the server creates or refuses and never updates.
- *once* creates the object and never writes it again, whoever made what stands under its name; a policy holds it, and that the identity never reads the object by an update.
- *versioned* may send the resourceVersion that was read, because the write rests on a decision about the object as it was. Every other write on a main resource carries the uid that was read, and the resourceVersion too where the object has the owner that the write states.
- *baseline* has a pod template that stays within the [baseline Pod Security Standard](https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline); a policy holds it.
- *owned by* states the owner of the object. For clusters with OwnerReferencesPermissionEnforcement roles have ` +
		"`update`" + ` of the owner's finalizers and, where the contract takes objects over, ` + "`delete`" +
		` of the object, which nothing else needs.
`)
	b.WriteString(c.removals() + c.Takeover.markdown() + c.rights())
	return b.String()
}

func (c Contract) removals() string {
	if len(c.Removals) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(`
## Deletions

With the uid and the resourceVersion that were read as preconditions: whoever decides that an object is to go does by its owner.

| identity | object | what |
|---|---|---|
`)
	for _, r := range c.Removals {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.Identity, r.Object, r.Why)
	}
	return b.String()
}

func (c Contract) rights() string {
	if len(c.Rights) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(`
## Other rights

What roles give beside the verbs of the tables above: patch, create where a grant creates, and delete.

| identity | resource | verbs | what for |
|---|---|---|---|
`)
	for _, r := range c.Rights {
		resource, sub, _ := strings.Cut(r.Resource, "/")
		resource = strings.TrimSuffix(strings.TrimSuffix(resource+"."+r.Group, ".")+"/"+sub, "/")
		if len(r.Names) > 0 {
			resource += " (`" + strings.Join(r.Names, "`, `") + "`)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.Identity, resource, strings.Join(r.Verbs, ", "), r.Why)
	}
	return b.String()
}

func (t *Takeover) markdown() string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf(`
## Take-overs

A take-over is a patch of %[1]smetadata.managedFields%[1]s alone, with the resourceVersion that was read, followed by the manager's
apply. It moves fields that the contract gives to one manager alone into that manager's entry:

- from %[1]sbefore-first-apply%[1]s, to which the API server attributes all fields after a reset of %[1]smanagedFields%[1]s, also those
  of a subresource;
- from all other managers, once for each object, if the object has the annotation %[1]s%[2]s: "true"%[1]s and the manager has not written it yet. A manager that may
  create the object may then also write one that it did not create;
- from all other managers, at the end of an object's deletion, the finalizer of the manager, so that the object goes also where a tool
  stated that;
- from all other managers, each time, of an object that the manager may create: what the manager does not set there, such as a
  %[1]scommand%[1]s in a container of its own. The apply then removes it.

Other entries of subresources, and fields that the contract gives to no manager, stay as they are.
`, "`", t.Annotation)
}

func (c Contract) objects() []Object {
	var objects []Object
	seen := map[Object]bool{}
	for _, g := range c.Grants {
		if !seen[g.Object] {
			seen[g.Object] = true
			objects = append(objects, g.Object)
		}
	}
	return objects
}

func (g Grant) row() string {
	mode := []string{string(g.Mode)}
	if g.Create {
		mode = append(mode, "creates")
	}
	if g.Once {
		mode = append(mode, "once")
	}
	if g.Versioned {
		mode = append(mode, "versioned")
	}
	if g.Baseline {
		mode = append(mode, "baseline")
	}
	if g.Owner.Kind != "" {
		mode = append(mode, "owned by "+g.Owner.Kind)
	}
	what := g.Why
	if len(g.Names) > 0 {
		what += " (`" + strings.Join(g.Names, "`, `") + "`)"
	}
	fields := make([]string, 0, len(g.Fields))
	for _, f := range g.Fields {
		fields = append(fields, "`"+f.String()+"`")
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", g.Manager, g.Identity, strings.Join(mode, ", "),
		strings.Join(fields, "<br>"), what)
}
