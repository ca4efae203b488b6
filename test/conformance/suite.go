// Package conformance holds Freehold against servers, clients and a suite that others wrote: what they do directly,
// they do through Freehold.
//
// suite.go runs the conformance suite of MCP (https://www.npmjs.com/package/@modelcontextprotocol/conformance),
// compare.go compares two runs of it, and failures.go tells what the server fails by itself. The tests with the build
// tag "cluster" need the cluster that hack/conformance.sh brings up.
package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// Suite is an installed conformance suite.
type Suite struct {
	// Node is the path of Node, release 22 or later.
	Node string
	// Program is the path of the suite's program.
	Program string
}

// Check is what one check of a scenario found.
type Check struct {
	ID string `json:"id"`
	// Status is SUCCESS, FAILURE, WARNING, INFO or SKIPPED.
	Status string `json:"status"`
	// Error says what is wrong where the check failed.
	Error string `json:"errorMessage,omitempty"`
}

// Results are the checks of each scenario, in the order in which the suite made them.
type Results map[string][]Check

// Checks counts the checks of all scenarios that passed or failed, as the suite's own summary does.
func (r Results) Checks() int {
	n := 0
	for _, checks := range r {
		for _, check := range checks {
			if check.Status == success || check.Status == failure {
				n++
			}
		}
	}
	return n
}

// Run runs the scenarios that a revision of MCP requires, for example 2026-07-28, against the server at url. It keeps
// what the suite wrote in dir, which must not exist. A server that fails checks is no error.
func (s Suite) Run(ctx context.Context, url, revision, dir string) (Results, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, s.Node, s.Program, "server", "--url", url, "--requirements", revision, "--output-dir",
		dir)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	// Exit code 1 says that a check failed, which the files tell in detail.
	if exit := new(exec.ExitError); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return nil, fmt.Errorf("running the suite: %w: %s", err, said.Bytes())
	}
	results, err := read(os.DirFS(dir))
	if err == nil && len(results) == 0 {
		err = fmt.Errorf("the suite wrote no results: %s", said.Bytes())
	}
	return results, err
}

// scenario is the name of the folder of a scenario's results, with its time.
var scenario = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// read reads the results that the suite wrote: a folder for each scenario.
func read(files fs.FS) (Results, error) {
	folders, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, err
	}
	results := Results{}
	for _, folder := range folders {
		name := scenario.FindStringSubmatch(folder.Name())
		if name == nil {
			return nil, fmt.Errorf("%s is not the name of a scenario's results", folder.Name())
		}
		data, err := fs.ReadFile(files, folder.Name()+"/checks.json")
		if err != nil {
			return nil, err
		}
		var checks []Check
		if err := json.Unmarshal(data, &checks); err != nil {
			return nil, fmt.Errorf("reading the checks of %s: %w", name[1], err)
		}
		results[name[1]] = checks
	}
	return results, nil
}
