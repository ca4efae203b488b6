package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func (c *cli) completeObject(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return c.kinds(), cobra.ShellCompDirectiveNoFileComp
	case 1:
		return c.names(args[0]), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func (c *cli) kinds() []string {
	var kinds []string
	for _, g := range c.contract.Grants {
		if kind := strings.ToLower(g.Object.Kind); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// names are empty if they cannot be read: a shell that completes shows no errors.
func (c *cli) names(kind string) []string {
	found, err := c.listed(false, kind)
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(found))
	for _, u := range found {
		names = append(names, u.GetName())
	}
	return names
}
