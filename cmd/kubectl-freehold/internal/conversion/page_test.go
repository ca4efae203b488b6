package conversion

import (
	"fmt"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/test/golden"
)

func TestThePageHasTheTableOfFields(t *testing.T) {
	const page, begin, end = "../../../../docs/import.md",
		"<!-- generated from cmd/kubectl-freehold/internal/conversion -->\n", "<!-- end of what is generated -->\n"
	golden.Part(t, page, begin, end, markdown())
}

// markdown is the table of all rows.
func markdown() string {
	var page strings.Builder
	for _, k := range readable() {
		if k.to == "" {
			continue
		}
		name := k.kind
		if k.when != nil {
			name += ", that becomes an " + k.to + ","
		}
		fmt.Fprintf(&page, "### %s of %s\n\n`%s/{%s}`\n\n| field | becomes | differs, or instead |\n| --- | --- | --- |\n",
			name, k.product, k.group, strings.Join(k.versions, ","))
		for _, r := range k.rows {
			fmt.Fprintf(&page, "| `%s` | %s | %s |\n", r.from, becomes(r), differs(r))
		}
		if len(k.adds) > 0 {
			fmt.Fprintf(&page, "\nWhat %s does by itself, which no field says:\n\n", k.product)
		}
		for _, a := range k.adds {
			fmt.Fprintf(&page, "- It %s.\n", a.does)
		}
		page.WriteString("\n")
	}
	page.WriteString("### Kinds without an equal\n\n| kind | instead |\n| --- | --- |\n")
	for _, k := range readable() {
		if k.to == "" {
			fmt.Fprintf(&page, "| `%s` of %s | %s |\n", k.kind, k.product, k.note)
		}
	}
	return page.String()
}

func becomes(r row) string {
	switch {
	case strings.HasPrefix(r.to, "spec") && !strings.Contains(r.to, " "):
		return "`" + r.to + "`"
	case r.to != "":
		return r.to
	case r.granted != nil:
		return fmt.Sprintf("nothing if it is `%v`, else a comment", r.granted)
	case r.take != nil:
		return "nothing: no field is needed"
	}
	return "a comment"
}

func differs(r row) string {
	if r.guards && r.note != "" {
		return r.note + ". The server is suspended until then"
	}
	return r.note
}
