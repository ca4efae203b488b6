package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/conversion"
	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/formats"
	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/images"
)

const aboutImport = `Read what runs elsewhere, and print Freehold's objects with the same meaning
as YAML: files of clients as Claude, Cursor and VS Code, descriptions of the MCP
registry, compose files, and objects of ToolHive, kmcp, kagent, litellm-operator
and mcp-lifecycle-operator from files or from the cluster. Nothing is written to
the cluster.

A comment above each object names every field that has no equal, with its value
and what to write instead, and what the API server or Freehold would not accept.
Secrets are not printed: a Secret with empty keys stands in their place. A server
that loses a field which kept callers out, or has one that import does not know,
has spec.suspend: true; so has each server that names a configuration
with such a field. If none of those read names it, the spec of the configuration
is in a comment, and a person has to complete it. So import a configuration together with
the servers that name it. docs/import.md has the table of all fields.

Images are asked what they run: from their registry, with the login of your
docker, at whatever host a file names. --images=never asks nobody, --images=archive:FILE reads a file.

With --adopt clients keep their URL, and the two operators never serve at once:
--adopt=prepare prints the servers suspended, and --adopt=switch, once the other
operator's objects are deleted, prints them running, each with a Service of the
old name in front of its proxies. A server that loses a field which kept callers
out stays suspended in both: before you delete the other operator's objects,
prepare what replaces that field, then remove spec.suspend from what switch
prints. docs/import.md has the steps.

A line on the standard error says of each object whether it is complete. Objects
of other kinds, and files without any, are named there and left out. The exit
code is 0 if all objects are complete, 1 if a person has something to complete,
and 2 if nothing could be imported, or a file could not be read.`

func (c *cli) importing() *cobra.Command {
	files, everywhere, adopt := []string{}, false, ""
	ask, platform := "ask", "linux/amd64"
	cmd := &cobra.Command{
		Use:   "import (-f FILE | KIND.GROUP [NAME])",
		Short: "Print what runs elsewhere as Freehold's objects",
		Long:  aboutImport,
		Example: `  # The servers of a client
  kubectl freehold import -f .mcp.json

  # Files and folders
  kubectl freehold import -f servers/

  # A pipe
  kustomize build overlays/prod | kubectl freehold import -f -

  # All servers of ToolHive in the cluster
  kubectl freehold import mcpservers.toolhive.stacklok.dev --all-namespaces

  # One server of kmcp
  kubectl freehold import mcpservers.kagent.dev github`,
		Args: func(_ *cobra.Command, args []string) error {
			if (len(files) == 0) == (len(args) == 0) {
				return errors.New("name either files with -f, or a kind with its group; see --help for examples")
			}
			if stage := conversion.Stage(adopt); adopt != "" && stage != conversion.Prepare && stage != conversion.Switch {
				return fmt.Errorf("--adopt is %q: write %s or %s", adopt, conversion.Prepare, conversion.Switch)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			by := conversion.Options{Stage: conversion.Stage(adopt)}
			var err error
			if by.Images, err = imagesBy(ask, platform); err != nil {
				return err
			}
			found, err := c.toImport(files, everywhere, args)
			by.Entries = found.Entries
			if len(found.Objects)+len(found.Entries) == 0 && err != nil {
				return err
			}
			printed := c.printImported(cmd.Context(), found.Objects, by)
			if err != nil {
				return err // what could be read is printed all the same
			}
			return printed
		},
	}
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil, "files or folders to read, - for the standard input")
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "read the objects of all namespaces")
	cmd.Flags().StringVar(&adopt, "adopt", "", "take the place of running workloads: prepare or switch")
	cmd.Flags().StringVar(&ask, "images", ask,
		"ask registries what images say, with your login: ask, never or archive:FILE")
	cmd.Flags().StringVar(&platform, "platform", platform,
		"the platform of the cluster's nodes, of which images are asked for")
	return cmd
}

// toImport reads files, or objects of the cluster.
func (c *cli) toImport(files []string, everywhere bool, args []string) (formats.Found, error) {
	if len(files) > 0 {
		found := formats.Files(files, c.In)
		errs := make([]string, len(found.Errs))
		for i, err := range found.Errs {
			errs[i] = oneLine(err.Error())
		}
		if len(errs) > 0 {
			return found, errors.New(strings.Join(errs, "\n"))
		}
		return found, nil
	}
	namespace, err := c.namespace()
	if err != nil {
		return formats.Found{}, err
	}
	objects, err := all(resource.NewBuilder(c.flags).Unstructured().NamespaceParam(namespace).DefaultNamespace().AllNamespaces(
		everywhere).
		RequestChunksOf(pageSize).ResourceTypeOrNameArgs(true, args...).Flatten().Do())
	return formats.Found{Objects: objects}, err
}

// imagesBy is how images are read, nil for not at all.
func imagesBy(ask, platform string) (conversion.Images, error) {
	file, archived := strings.CutPrefix(ask, "archive:")
	switch {
	case archived:
		return images.Archive(file), nil
	case ask == "never":
		return nil, nil
	case ask != "ask":
		return nil, fmt.Errorf("--images is %q: write ask, never or archive:FILE", ask)
	}
	return images.Registry(platform)
}

// printImported prints what objects and entries become, and a line of each on the standard error. It returns errWrong
// where a person has something to complete.
func (c *cli) printImported(ctx context.Context, found []*unstructured.Unstructured, by conversion.Options) error {
	imported, left, open := 0, false, false
	for _, outcome := range conversion.Run(ctx, found, by) {
		if outcome.Err != nil {
			left = true
			fmt.Fprintln(c.ErrOut, oneLine(fmt.Sprintf("left out: %s: %v", title(outcome.Source), outcome.Err)))
		}
		for _, result := range outcome.Results {
			if err := printImported(c.Out, result); err != nil {
				return err
			}
			fmt.Fprintln(c.ErrOut, oneLine(summary(result)))
			open = open || result.Open
			imported++
		}
	}
	if left {
		fmt.Fprintf(c.ErrOut, "What can be imported: %s; %s\n", formats.Known(), conversion.Known())
	}
	switch {
	case imported == 0:
		return errors.New("nothing could be imported")
	case open:
		return errWrong
	}
	return nil
}

// summary is a result in one line.
func summary(result conversion.Result) string {
	if result.Object == nil {
		return "left out: " + result.From + ": " + result.Remarks[0]
	}
	u := unstructured.Unstructured{Object: result.Object}
	state := "complete"
	switch {
	case result.Open:
		state = "to be completed: see the comments above it"
	case len(result.Remarks) > 0:
		state = "complete; the comments above it say what differs"
	}
	return title(&u) + ": " + state
}

// printImported prints one document of YAML. Comments stay on their lines, so that no name or value of the source
// becomes a part of the object.
func printImported(out io.Writer, result conversion.Result) error {
	var text strings.Builder
	text.WriteString("---\n# From " + oneLine(result.From) + ".\n")
	for _, remark := range result.Remarks {
		text.WriteString("# - " + oneLine(remark) + "\n")
	}
	if result.Object != nil {
		object, err := yaml.Marshal(result.Object)
		if err != nil {
			return fmt.Errorf("printing %s: %w", result.From, err)
		}
		text.Write(object)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// oneLine removes what a reader of YAML takes for the end of a line, such as U+0085.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}
