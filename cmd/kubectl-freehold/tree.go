package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// hold is a holding without its field, so that holds can be compared.
type hold struct {
	manager, operation, subresource string
	time                            string
	verdict                         ownership.Verdict
	grantee                         ownership.Manager
}

func holdOf(h ownership.Holding, when func(ownership.Holding) string) hold {
	return hold{
		manager: h.Manager, operation: string(h.Operation), subresource: h.Subresource,
		time: when(h), verdict: h.Verdict, grantee: h.Grantee,
	}
}

type node struct {
	step  string
	field string
	holds []hold
	below []*node
}

func (n *node) add(field fieldpath.Path, h hold) {
	for i, element := range field {
		step := ownership.NotationOf(element)
		at := slices.IndexFunc(n.below, func(b *node) bool { return b.step == step })
		if at < 0 {
			at = len(n.below)
			n.below = append(n.below, &node{step: step, field: ownership.Notation(field[:i+1])})
		}
		n = n.below[at]
	}
	n.holds = append(n.holds, h)
}

func (n *node) leaves() int {
	count := 0
	if len(n.holds) > 0 {
		count = 1
	}
	for _, b := range n.below {
		count += b.leaves()
	}
	return count
}

// uniform returns the holders of the whole tree, if all its fields have the same.
func (n *node) uniform() ([]hold, bool) {
	holds := n.holds
	for _, b := range n.below {
		of, same := b.uniform()
		if !same || len(holds) > 0 && !slices.Equal(holds, of) {
			return nil, false
		}
		holds = of
	}
	return holds, true
}

// row is a line of a tree, and one more for each further holder.
type row struct {
	// label is the field relative to the rows above, indented.
	label string
	field string
	// fields is how many fields the row stands for.
	fields int
	holds  []hold
}

// whole is the minimum depth of a field that stands for its content: metadata, spec and status never do.
const whole = 2

// rows are the lines of a tree. Unless every is set, a field whose content has the same holders stands for its content.
func (n *node) rows(every bool) []row { return n.lines(every, 0, 0) }

func (n *node) lines(every bool, depth, indent int) []row {
	var rows []row
	for _, b := range n.below {
		label, deep := b.step, depth+1
		holds, same := b.uniform()
		stands := func() bool { return !every && same && deep >= whole && b.leaves() > 1 }
		// A field without siblings shares its parent's line.
		for len(b.holds) == 0 && len(b.below) == 1 && !stands() {
			b, deep = b.below[0], deep+1
			if b.step[0] != '[' {
				label += "."
			}
			label += b.step
		}
		r := row{label: strings.Repeat("  ", indent) + label, field: b.field, fields: 1, holds: b.holds}
		if stands() {
			r.holds, r.fields = holds, b.leaves()
			rows = append(rows, r)
			continue
		}
		rows = append(append(rows, r), b.lines(every, deep, indent+1)...)
	}
	return rows
}

// text is the row's label, and how much it stands for.
func (r row) text(label string) string {
	if r.fields > 1 {
		return fmt.Sprintf("%s (%d fields)", label, r.fields)
	}
	return label
}

// age formats the time since an entry changed, as kubectl does.
func age(now time.Time) func(ownership.Holding) string {
	return func(h ownership.Holding) string {
		if h.Time == nil {
			return ""
		}
		return duration.HumanDuration(now.Sub(h.Time.Time))
	}
}

func at(h ownership.Holding) string { return stamp(h.Time) }
