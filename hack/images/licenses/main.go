// Licenses finds the licence of every module that is linked into a command of ours, and refuses one that is
// not permissive, or that it does not know.
//
//	go -C hack/images run ./licenses -page docs/maintainers/licenses.md              the list, for people
//	go -C hack/images run ./licenses -texts bin/licenses/THIRD_PARTY    the texts, as the images carry them
//
// What is linked is what `go list` says for the platforms that a command is given away for. A package's licences are
// those in its folder and in every folder above it up to the module's root: forks that a module carries have a text of
// their own. Relative paths start at the root of the repository.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// root is seen from the folder that `go -C hack/images run ./licenses` runs this program in.
const root = "../.."

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("licenses", flag.ContinueOnError)
	listed := flags.String("page", "", "`path` of the page to write")
	texts := flags.String("texts", "", "`path` of the file to write all texts to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	modules, err := linked(root)
	if err != nil {
		return err
	}
	if *texts != "" {
		return writeTexts(filepath.Join(root, *texts), modules)
	}
	if *listed == "" {
		return errors.New("say what to write: -page or -texts")
	}
	if err := identify(modules); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, *listed), page(modules), 0o644)
}

// writeTexts is quick, since it asks no classifier: every build of the images calls it.
func writeTexts(path string, modules []*module) error {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("asking where Go is: %w", err)
	}
	golang, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(goroot)), "LICENSE"))
	if err != nil {
		return fmt.Errorf("reading the licence of Go: %w", err)
	}
	std := &module{path: "the Go standard library", texts: []text{{"LICENSE", string(golang)}}}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, thirdParty(append([]*module{std}, modules...)), 0o644)
}
