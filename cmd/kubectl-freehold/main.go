// Command kubectl-freehold is a plugin of kubectl that shows who owns which field, and what the ownership contract
// says about it. Only release and rollout undo write. Start with run and root; each command has its file.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// version is set by the linker.
var version = "dev"

// Exit codes, as those of diff.
const (
	exitFine  = 0
	exitWrong = 1
	exitError = 2
)

// errWrong means that a command succeeded and printed findings.
var errWrong = errors.New("something is wrong")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := newCLI(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}).run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func (c *cli) run(ctx context.Context, args []string) int {
	root := c.root()
	root.SetArgs(args)
	return c.exit(root.ExecuteContext(ctx))
}

func (c *cli) exit(err error) int {
	switch {
	case err == nil:
		return exitFine
	case errors.Is(err, errWrong):
		return exitWrong
	}
	fmt.Fprintln(c.ErrOut, "error:", err)
	return exitError
}
