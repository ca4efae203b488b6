package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the group and version of every kind in this package.
// The generated apply configurations refer to it under this name.
var SchemeGroupVersion = schema.GroupVersion{Group: "freehold.dev", Version: "v1alpha1"}

var (
	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the kinds of this package.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &MCPServer{}, &MCPServerList{}, &MCPRemoteProxy{}, &MCPRemoteProxyList{},
		&MCPOIDCConfig{}, &MCPOIDCConfigList{}, &MCPAuthzConfig{}, &MCPAuthzConfigList{},
		&MCPGroup{}, &MCPGroupList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
