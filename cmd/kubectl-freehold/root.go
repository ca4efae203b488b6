package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
)

type cli struct {
	genericiooptions.IOStreams
	flags    *genericclioptions.ConfigFlags
	contract ownership.Contract
	now      func() time.Time
}

func newCLI(streams genericiooptions.IOStreams) *cli {
	return &cli{
		IOStreams: streams,
		flags:     genericclioptions.NewConfigFlags(true).WithWarningPrinter(streams),
		contract:  contract.Freehold(),
		now:       time.Now,
	}
}

func (c *cli) root() *cobra.Command {
	c.flags.WithWrapConfigFn(func(config *rest.Config) *rest.Config {
		config.UserAgent = "kubectl-freehold/" + version
		config.QPS, config.Burst = 50, 300 // as kubectl's
		return config
	})
	root := &cobra.Command{
		Use:   "kubectl-freehold",
		Short: "Show who owns which field",
		Long: `Show who owns which field of an object, and what Freehold's ownership contract
says about it. Only release and rollout undo write, and ask first; check --network
runs a pod for a moment.

The exit code is 0 on success, 1 if audit, check, status or rollout status found something
wrong, or plan something that would change, and 2 after an error.`,
		Version: version,
		// run prints errors, and a finding in the cluster is no misuse of the command.
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl freehold"},
	}
	root.SetIn(c.In)
	root.SetOut(c.Out)
	root.SetErr(c.ErrOut)
	c.flags.AddFlags(root.PersistentFlags())
	root.AddCommand(c.owners(), c.audit(), c.check(), c.connect(), c.importing(), c.refs(), c.plan(), c.release(),
		c.rollout(), c.status(), c.debug())
	return root
}

func noObject(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return errors.New("name a namespace with -n, or all with -A, and no object; see --help for examples")
	}
	return nil
}
