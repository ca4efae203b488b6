package main

import (
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
)

const aboutImport = `Read MCP servers and configurations of ToolHive, kmcp or mcp-lifecycle-operator
from files or from the cluster, and print Freehold's objects with the same
meaning as YAML. Nothing is written to the cluster.

A comment above each object names every field that has no equal, with its value
and what to write instead, and what the API server or Freehold would not accept.
A server that loses a field which kept callers out, or has one that import does
not know, has spec.suspend: true; so has each server that names a configuration
with such a field. If none of those read names it, the spec of the configuration
is in a comment, and a person has to complete it. So import a configuration together with
the servers that name it. docs/import.md has the table of all fields.

With --adopt clients keep their URL, and the two operators never serve at once:
--adopt=prepare prints the servers suspended, and --adopt=switch, once the other
operator's objects are deleted, prints them running, each with a Service of the
old name in front of its proxies. A server that loses a field which kept callers
out stays suspended in both: before you delete the other operator's objects,
prepare what replaces that field, then remove spec.suspend from what switch
prints. docs/import.md has the steps.

Objects of other kinds, and files without any, are named on the standard error
and left out. The exit code is 2 if nothing could be imported, or a file could
not be read.`

func (c *cli) importing() *cobra.Command {
	files, everywhere, adopt := []string{}, false, ""
	cmd := &cobra.Command{
		Use:   "import (-f FILE | KIND.GROUP [NAME])",
		Short: "Print the objects of another operator as Freehold's",
		Long:  aboutImport,
		Example: `  # Files and folders
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
		RunE: func(_ *cobra.Command, args []string) error {
			found, err := c.toImport(files, everywhere, args)
			if len(found) == 0 && err != nil {
				return err
			}
			return errors.Join(c.printImported(found, conversion.Stage(adopt)), err)
		},
	}
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil, "files or folders to read, - for the standard input")
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "read the objects of all namespaces")
	cmd.Flags().StringVar(&adopt, "adopt", "", "take the place of running workloads: prepare or switch")
	return cmd
}

func (c *cli) toImport(files []string, everywhere bool, args []string) ([]*unstructured.Unstructured, error) {
	if len(files) > 0 {
		builder := resource.NewLocalBuilder().Unstructured().ContinueOnError().Flatten()
		if len(files) == 1 && files[0] == "-" {
			return all(builder.Stream(c.In, "the standard input").Do())
		}
		return all(builder.FilenameParam(false, &resource.FilenameOptions{Filenames: files, Recursive: true}).Do())
	}
	namespace, err := c.namespace()
	if err != nil {
		return nil, err
	}
	return all(resource.NewBuilder(c.flags).Unstructured().NamespaceParam(namespace).DefaultNamespace().AllNamespaces(
		everywhere).
		RequestChunksOf(pageSize).ResourceTypeOrNameArgs(true, args...).Flatten().Do())
}

func (c *cli) printImported(found []*unstructured.Unstructured, stage conversion.Stage) error {
	imported, left := 0, false
	for _, outcome := range conversion.Run(found, stage) {
		if outcome.Err != nil {
			left = true
			fmt.Fprintf(c.ErrOut, "left out: %s: %v\n", safe(title(outcome.Source)), outcome.Err)
		}
		for _, result := range outcome.Results {
			if err := printImported(c.Out, result); err != nil {
				return err
			}
			imported++
		}
	}
	if left {
		fmt.Fprintln(c.ErrOut, "The kinds that can be imported are "+conversion.Known())
	}
	if imported == 0 {
		return errors.New("nothing could be imported")
	}
	return nil
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
