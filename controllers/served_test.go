package controllers

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// cluster serves these kinds of ours, or does not answer.
type cluster struct {
	meta.RESTMapper
	kinds map[string]bool
	err   error
}

func (c cluster) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if c.kinds[kind.Kind] || c.err != nil {
		return nil, c.err
	}
	return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
}

func TestAnOperatorNamesTheKindsThatTheClusterLacks(t *testing.T) {
	const others = "the cluster has no CustomResourceDefinition of MCPRemoteProxy, MCPOIDCConfig in " +
		"freehold.dev/v1alpha1: " +
		"apply the CRDs of this release, which its chart does unless crds.install is false"
	for name, tc := range map[string]struct {
		in   cluster
		want string
	}{
		"all are there": {
			cluster{
				kinds: map[string]bool{
					"MCPServer": true, "MCPRemoteProxy": true, "MCPOIDCConfig": true, "MCPAuthzConfig": true,
					"MCPGroup": true,
				},
			},
			"",
		},
		"two are younger": {
			cluster{kinds: map[string]bool{"MCPServer": true, "MCPAuthzConfig": true, "MCPGroup": true}}, others,
		},
		"it does not answer": {cluster{err: errors.New("connection refused")}, ""},
	} {
		got := ""
		if err := checkKindsServed(tc.in); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
