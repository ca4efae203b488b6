package kit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watchedKinds are those that a server's life touches. Leases and Events are not among them: they move by themselves.
var watchedKinds = []schema.GroupVersionKind{
	{Group: "freehold.dev", Version: "v1alpha1", Kind: "MCPServer"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "apps", Version: "v1", Kind: "ControllerRevision"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ServiceAccount"},
}

// Versions are the resourceVersions of all objects of a namespace, by Kind/name.
type Versions map[string]string

// Versions reads them now. Only metadata is read.
func (s *Env) Versions() Versions {
	s.Helper()
	versions := Versions{}
	for _, gvk := range watchedKinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		s.Must(s.Client.List(s.Ctx, list, client.InNamespace(s.Namespace)), "listing "+gvk.Kind)
		for _, item := range list.Items {
			versions[gvk.Kind+"/"+item.Name] = item.ResourceVersion
		}
	}
	return versions
}

// Moved returns the objects that differ in after, or are in only one of the two, by name.
func (v Versions) Moved(after Versions) []string {
	var moved []string
	all := maps.Clone(v)
	maps.Copy(all, after)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch was, is := v[name], after[name]; {
		case was == "":
			moved = append(moved, name+" appeared")
		case is == "":
			moved = append(moved, name+" went")
		case was != is:
			moved = append(moved, fmt.Sprintf("%s moved from %s to %s", name, was, is))
		}
	}
	return moved
}

// NothingMoved fails the test if an object of the namespace changed since before was read.
func (s *Env) NothingMoved(before Versions) {
	s.Helper()
	if moved := before.Moved(s.Versions()); len(moved) > 0 {
		s.Fatalf("nothing was to move, but:\n  %s\n%s", strings.Join(moved, "\n  "), s.Surroundings())
	}
}
