package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers/kinds"
)

// oneWorkload demands the name of an MCPServer, or kind and name of another workload.
func oneWorkload(_ *cobra.Command, args []string) error {
	if len(args) != 1 && len(args) != 2 {
		return errors.New("name one MCPServer, or one object as KIND NAME or KIND/NAME; see --help for examples")
	}
	return nil
}

func (c *cli) completeServer(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var offered []string
	switch len(args) {
	case 0:
		offered = c.names(argument(contract.MCPServer))
		for _, w := range contract.Workloads() {
			offered = append(offered, strings.ToLower(w.Object.Kind))
		}
	case 1:
		offered = c.names(args[0])
	}
	return offered, cobra.ShellCompDirectiveNoFileComp
}

// workload is the object of the arguments, and the key in its children's labels.
func (c *cli) workload(args []string) (u *unstructured.Unstructured, key string, err error) {
	if len(args) == 1 && !strings.Contains(args[0], "/") {
		args = []string{argument(contract.MCPServer), args[0]}
	}
	if u, err = c.object(args...); err != nil {
		return nil, "", err
	}
	key, err = keyOfChildren(u)
	return u, key, err
}

// keyOfChildren is the key in the labels of a workload's children.
func keyOfChildren(u *unstructured.Unstructured) (string, error) {
	kind, known := kinds.Named(u.GetKind())
	if !known || u.GroupVersionKind().Group != kind.Object.Group {
		return "", fmt.Errorf("%s is no workload of Freehold: name an MCPServer or an MCPRemoteProxy", title(u))
	}
	return kind.Key(u.GetName()), nil
}
