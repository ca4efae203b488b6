package main

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
)

func (c *cli) namespace() (string, error) {
	namespace, _, err := c.flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// clientset is a client of the cluster, and its configuration.
func (c *cli) clientset() (*rest.Config, kubernetes.Interface, error) {
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	return config, client, err
}

// object reads the one object in args, as kubectl does: KIND NAME or KIND/NAME.
func (c *cli) object(args ...string) (*unstructured.Unstructured, error) {
	namespace, err := c.namespace()
	if err != nil {
		return nil, err
	}
	return one(resource.NewBuilder(c.flags).Unstructured().
		NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(false, args...).
		Flatten().Do())
}

func (c *cli) file(name string) (*unstructured.Unstructured, error) {
	builder := resource.NewLocalBuilder().Unstructured().Flatten()
	if name == "-" {
		return one(builder.Stream(c.In, "the standard input").Do())
	}
	return one(builder.FilenameParam(false, &resource.FilenameOptions{Filenames: []string{name}}).Do())
}

func one(result *resource.Result) (*unstructured.Unstructured, error) {
	found, err := all(result)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("name one object, not %d", len(found))
	}
	if len(found[0].GetManagedFields()) == 0 {
		return nil, fmt.Errorf("%s has no managedFields: if it comes from kubectl get, add --show-managed-fields",
			title(found[0]))
	}
	return found[0], nil
}

// all are the objects of a result. Beside an error it returns what it could read.
func all(result *resource.Result) ([]*unstructured.Unstructured, error) {
	infos, err := result.Infos()
	found := make([]*unstructured.Unstructured, 0, len(infos))
	for _, info := range infos {
		u, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			return nil, errors.Join(err, fmt.Errorf("%s is no object but %T", info.Name, info.Object))
		}
		found = append(found, u)
	}
	return found, err
}

func (c *cli) listed(everywhere bool, types ...string) ([]*unstructured.Unstructured, error) {
	return c.selected(everywhere, "", types...)
}

func (c *cli) selected(everywhere bool, selector string, types ...string) ([]*unstructured.Unstructured, error) {
	namespace, err := c.namespace()
	if err != nil {
		return nil, err
	}
	return c.within(namespace, everywhere, selector, types...)
}

func (c *cli) within(namespace string, everywhere bool, selector string, types ...string) ([]*unstructured.Unstructured,
	error,
) {
	return all(resource.NewBuilder(c.flags).Unstructured().
		NamespaceParam(namespace).DefaultNamespace().AllNamespaces(everywhere).
		RequestChunksOf(pageSize).ContinueOnError().LabelSelectorParam(selector).
		ResourceTypeOrNameArgs(true, strings.Join(types, ",")).Flatten().Do())
}

func title(u *unstructured.Unstructured) string { return u.GetKind() + "/" + u.GetName() }

// governed reports whether the contract covers an object: it is or belongs to an object of Freehold's kinds, or a
// manager of ours wrote it. The name is no evidence, since anybody may call a Deployment x-proxy.
func (c *cli) governed(u *unstructured.Unstructured) bool {
	if u.GroupVersionKind().Group == contract.MCPServer.Group {
		return true
	}
	for _, ref := range u.GetOwnerReferences() {
		if schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group == contract.MCPServer.Group {
			return true
		}
	}
	for _, entry := range u.GetManagedFields() {
		if c.contract.Claims(entry.Manager) {
			return true
		}
	}
	return false
}

// judge returns the holders of each field, with verdicts if the contract covers the object.
func (c *cli) judge(u *unstructured.Unstructured) ([]ownership.Holding, error) {
	holdings, err := c.contract.Judge(u.GroupVersionKind().GroupKind(), u.GetName(), u.GetManagedFields())
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", title(u), err)
	}
	if !c.governed(u) {
		for i := range holdings {
			holdings[i].Verdict, holdings[i].Grantee = "", ""
		}
	}
	return holdings, nil
}

// stamp formats a time, except for tables.
func stamp(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}
