package main

import (
	"bytes"
	"fmt"
	"strings"
)

const heading = `# Licences of what the binaries are linked from

Written by ` + "`make licenses`" + `, checked by ` + "`make verify`" +
	`. Each module is permissive: its text must be passed on with a
binary, and nothing else. The images carry Freehold's own licence as ` + "`/licenses/LICENSE`" +
	` and all of these texts, with
that of the Go standard library, as ` + "`/licenses/THIRD_PARTY`" +
	`. Test and build tools are not linked, and not listed.

| module | version | licence | in |
| --- | --- | --- | --- |
`

// page is the list in Markdown.
func page(modules []*module) []byte {
	var out bytes.Buffer
	out.WriteString(heading)
	for _, m := range modules {
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", m.path, m.version, strings.Join(m.licences, " AND "),
			strings.Join(m.in, ", "))
	}
	return out.Bytes()
}

const line = "--------------------------------------------------------------------------------\n"

// thirdParty is every text once, under the names of all modules that have it.
func thirdParty(modules []*module) []byte {
	var out bytes.Buffer
	out.WriteString("Freehold's binaries contain the following software under the licences printed here.\n")
	owners := map[string][]string{}
	var order []string
	for _, m := range modules {
		for _, t := range m.texts {
			if _, known := owners[t.content]; !known {
				order = append(order, t.content)
			}
			owners[t.content] = append(owners[t.content], strings.TrimSpace(m.path+" "+m.version)+": "+t.name)
		}
	}
	for _, content := range order {
		fmt.Fprintf(&out, "\n%s%s\n%s\n%s\n", line, strings.Join(owners[content], "\n"), line,
			strings.TrimRight(content, "\n"))
	}
	return out.Bytes()
}
