package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"

	"github.com/freehold-dev/freehold/test/conformance"
)

// comparison is what one client saw of one server.
type comparison struct {
	server, client string
	compared       int
	right          map[*known][]string // differences that are right, by reason
	wrong          map[string]string   // others, and how they differ
	late           bool                // a look has run out of time
	err            error
}

// judge compares two looks item by item.
func (c *comparison) judge(s server, direct, through map[string]string) {
	c.right, c.wrong, c.late = map[*known][]string{}, map[string]string{}, false
	if !slices.ContainsFunc(slices.Collect(maps.Values(direct)),
		func(text string) bool { return strings.Contains(text, s.proof) }) {
		c.err = fmt.Errorf("directly it sees nothing of the server itself: %q is not in it", s.proof)
	}
	items := maps.Clone(direct)
	maps.Copy(items, through)
	c.compared = len(items)
	for item := range items {
		diff := cmp.Diff(direct[item], through[item])
		if diff == "" {
			continue
		}
		if k := c.of(item); k != nil {
			c.right[k] = append(c.right[k], item)
			continue
		}
		c.wrong[item] = diff
		c.late = c.late || conformance.Late(diff)
	}
}

func (c *comparison) count() string {
	if c.err != nil {
		return "–"
	}
	same := c.compared - len(c.wrong)
	for _, items := range c.right {
		same -= len(items)
	}
	return fmt.Sprintf("%d/%d", same, c.compared)
}

// report tells a person what was compared. It is an error where something differs that should not, or is known to
// differ and does not.
func report(all []comparison, whole bool) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "\nequal/compared")
	counts, columns := map[string]map[string]string{}, []string{}
	var rows []string
	for _, c := range all {
		if counts[c.server] == nil {
			counts[c.server] = map[string]string{}
			rows = append(rows, c.server)
		}
		if !slices.Contains(columns, c.client) {
			columns = append(columns, c.client)
		}
		counts[c.server][c.client] = c.count()
	}
	fmt.Fprintln(table, "\t"+strings.Join(columns, "\t"))
	for _, row := range rows {
		fmt.Fprint(table, row)
		for _, column := range columns {
			fmt.Fprint(table, "\t", counts[row][column])
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return judged(all, whole)
}

// judged tells which differences are right, and fails for the others.
func judged(all []comparison, whole bool) error {
	var wrong []error
	compared, found := 0, map[*known][]string{}
	for _, c := range all {
		compared += c.compared
		if c.err != nil {
			wrong = append(wrong, fmt.Errorf("%s, %s: %w", c.server, c.client, c.err))
		}
		for _, item := range slices.Sorted(maps.Keys(c.wrong)) {
			wrong = append(wrong, fmt.Errorf("%s, %s: %s differs (- directly, + through Freehold):\n%s", c.server, c.client,
				item, c.wrong[item]))
		}
		for k, items := range c.right {
			slices.Sort(items)
			found[k] = append(found[k], c.server+", "+c.client+": "+strings.Join(items, ", "))
		}
	}
	fmt.Printf("\n%d comparisons. These differ, and that is right:\n", compared)
	for i := range differences {
		k := &differences[i]
		for _, at := range found[k] {
			fmt.Printf("  %s: %s\n", at, k.why)
		}
		if whole && len(found[k]) == 0 && !k.sometimes {
			wrong = append(wrong, fmt.Errorf("known.go has a difference that is not there: %s, %s, %s: %s", k.server, k.client,
				k.item, k.why))
		}
	}
	return errors.Join(wrong...)
}
