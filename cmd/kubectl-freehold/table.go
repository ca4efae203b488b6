package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/printable"
)

type output struct {
	format string
	wide   bool
}

func (o *output) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "output format: "+strings.Join(o.formats(), ", ")+
		"; a table if none is named")
	err := cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(o.formats(), cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is registered in the line above
	}
}

func (o *output) formats() []string {
	formats := (&genericclioptions.JSONYamlPrintFlags{}).AllowedFormats()
	if o.wide {
		return append([]string{"wide"}, formats...)
	}
	return formats
}

func (o *output) isTable() bool { return o.format == "" || o.isWide() }

func (o *output) isWide() bool { return o.wide && o.format == "wide" }

// check refuses an unknown format before the cluster is asked.
func (o *output) check() error {
	if o.isTable() {
		return nil
	}
	if _, err := genericclioptions.NewJSONYamlPrintFlags().ToPrinter(o.format); err != nil {
		return fmt.Errorf("unknown output format %q: write one of %s", o.format, strings.Join(o.formats(), ", "))
	}
	return nil
}

// print writes content, a pointer to a struct with JSON tags, for programs, under its kind.
func (o *output) print(out io.Writer, kind string, content any) error {
	printer, err := genericclioptions.NewJSONYamlPrintFlags().ToPrinter(o.format)
	if err != nil {
		return err
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(content)
	if err != nil {
		return fmt.Errorf("writing %s: %w", kind, err)
	}
	object["apiVersion"], object["kind"] = "cli.freehold.dev/v1alpha1", kind
	return printer.PrintObj(&unstructured.Unstructured{Object: object}, out)
}

func table(out io.Writer, lines [][]string) error {
	used := make([]bool, len(lines[0]))
	for _, line := range lines[1:] {
		for i, cell := range line {
			used[i] = used[i] || cell != ""
		}
	}
	var text bytes.Buffer
	columns := printers.GetNewTabWriter(&text)
	for _, line := range lines {
		var cells []string
		for i, cell := range line {
			if used[i] {
				cells = append(cells, cell)
			}
		}
		fmt.Fprintln(columns, strings.Join(cells, "\t"))
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// Escape sequences of terminals (https://en.wikipedia.org/wiki/ANSI_escape_code#Colors).
const (
	red, green, yellow = "\x1b[31m", "\x1b[32m", "\x1b[33m"
	plain              = "\x1b[0m"
)

// paint writes a verdict, in colour on a terminal that wants it. The verdict is in the last column, whose width does
// not matter.
func paint(out io.Writer, v ownership.Verdict) string {
	if v == "" || !colours(out) {
		return string(v)
	}
	switch {
	case v.Wrong():
		return red + string(v) + plain
	case v == ownership.Ours:
		return green + string(v) + plain
	case v == ownership.Yielded:
		return yellow + string(v) + plain
	}
	return string(v)
}

// colours is a variable for tests.
var colours = printers.AllowsColorOutput

// safe removes control sequences from the cluster's text.
func safe(text string) string {
	return strings.NewReplacer("\t", " ", "\n", " ", "\v", " ", "\f",
		" ").Replace(printable.Text(printers.EscapeTerminal(text)))
}
