// Command picture draws what the demo shows, from what the API server says:
//
//	picture writes AUDIT-LOG NAMESPACE SINCE
//	picture survived PATH=MANAGER... < object.json
//
// writes counts the write requests of Freehold in a namespace by verb, from the audit log; survived checks that fields
// are still owned by whom they were, and exits with 1 if one is not. Who owns what is for kubectl freehold to show.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/ownership"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 4 && args[0] == "writes":
		return writes(args[1], args[2], args[3], os.Stdout)
	case len(args) > 1 && args[0] == "survived":
		return survived(os.Stdin, os.Stdout, args[1:])
	}
	return fmt.Errorf("usage: picture writes AUDIT-LOG NAMESPACE SINCE, or picture survived PATH=MANAGER and more")
}

func read(in io.Reader) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &u.Object); err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	if len(u.GetManagedFields()) == 0 {
		return nil, fmt.Errorf("the object has no managedFields: add --show-managed-fields to kubectl get")
	}
	return u, nil
}

// survived prints for each PATH=MANAGER whether MANAGER still owns PATH.
func survived(in io.Reader, out io.Writer, wants []string) error {
	u, err := read(in)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	lost := 0
	for _, want := range wants {
		i := strings.LastIndex(want, "=")
		if i < 0 {
			return fmt.Errorf("%q: write PATH=MANAGER", want)
		}
		path, err := ownership.ParsePath(want[:i])
		if err != nil {
			return err
		}
		holders, err := ownership.Owners(u.GetManagedFields(), path)
		if err != nil {
			return err
		}
		verdict := "LOST"
		for _, o := range holders {
			if o.Manager == want[i+1:] {
				verdict = "kept"
			}
		}
		if verdict == "LOST" {
			lost++
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", verdict, want[:i], want[i+1:])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if lost > 0 {
		return fmt.Errorf("%d fields were lost", lost)
	}
	return nil
}
