// Package kinds knows the kinds of objects that have a proxy, and reads an object of
// any of them in one form: that of an MCPServer, of which every other kind has a
// part. So whoever looks at the proxy, its children and its status is written once.
// It is pure.
package kinds

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// Object is an object of the API.
type Object interface {
	metav1.Object
	runtime.Object
}

// List is a list of them.
type List interface {
	metav1.ListInterface
	runtime.Object
}

// Kind is a kind of object that has a proxy.
type Kind struct {
	contract.Workload
	// New and NewList are empty ones.
	New     func() Object
	NewList func() List
}

// Servers is the kind MCPServer.
func Servers() Kind {
	return Kind{
		Workload: contract.MCPServers(),
		New:      func() Object { return &v1alpha1.MCPServer{} }, NewList: func() List { return &v1alpha1.MCPServerList{} },
	}
}

// RemoteProxies is the kind MCPRemoteProxy.
func RemoteProxies() Kind {
	return Kind{
		Workload: contract.MCPRemoteProxies(),
		New:      func() Object { return &v1alpha1.MCPRemoteProxy{} }, NewList: func() List { return &v1alpha1.MCPRemoteProxyList{} },
	}
}

var (
	all    = []Kind{Servers(), RemoteProxies()}
	byKind = func() map[string]Kind {
		kinds := map[string]Kind{"": all[0]} // an MCPServer that a client has read
		for _, k := range all {
			kinds[k.Object.Kind] = k
		}
		return kinds
	}()
)

// All are the kinds.
func All() []Kind { return all }

// Named is the kind of this name, and whether there is one. No name is that of an
// MCPServer.
func Named(kind string) (Kind, bool) {
	k, ok := byKind[kind]
	return k, ok
}

// Of is the kind of an object in the form of an MCPServer.
func Of(server *v1alpha1.MCPServer) Kind { return byKind[server.Kind] }

// Key names an object among those of all kinds in its namespace: NAME for an
// MCPServer, NAME.SUFFIX for another, and no name holds a dot.
func (k Kind) Key(name string) string {
	if k.Suffix == "" {
		return name
	}
	return name + "." + k.Suffix
}

// Key is that of an object in the form of an MCPServer.
func Key(server *v1alpha1.MCPServer) string { return Of(server).Key(server.Name) }

// OfKey is the kind and name of the object with this key; the kind is zero if none
// has its suffix.
func OfKey(key string) (kind Kind, name string) {
	name, suffix, _ := strings.Cut(key, ".")
	for _, k := range all {
		if k.Suffix == suffix {
			return k, name
		}
	}
	return Kind{}, name
}

// Title is the kind and name of the object with this key, for a sentence.
func Title(key string) string {
	kind, name := OfKey(key)
	return fmt.Sprintf("%s %q", kind.Object.Kind, name)
}

// Form is an object in the form of an MCPServer, nil if it is of no kind with a proxy.
// An MCPServer is its own. The form of another has its metadata and status, and of
// its spec what an MCPServer has too; its TypeMeta tells the kind. It shares memory
// with the object, and is not for writing.
func Form(obj runtime.Object) *v1alpha1.MCPServer {
	switch o := obj.(type) {
	case *v1alpha1.MCPServer:
		return o
	case *v1alpha1.MCPRemoteProxy:
		if o == nil {
			return nil
		}
		return remote(o)
	}
	return nil
}

func remote(o *v1alpha1.MCPRemoteProxy) *v1alpha1.MCPServer {
	return &v1alpha1.MCPServer{
		TypeMeta:   metav1.TypeMeta{APIVersion: contract.MCPRemoteProxy.GroupVersion().String(), Kind: contract.MCPRemoteProxy.Kind},
		ObjectMeta: o.ObjectMeta,
		Spec:       v1alpha1.MCPServerSpec{ProxyWorkloadSpec: o.Spec.ProxyWorkloadSpec, Transport: v1alpha1.Transport(o.Spec.Transport)},
		Status:     v1alpha1.MCPServerStatus{ProxyWorkloadStatus: o.Status.ProxyWorkloadStatus},
	}
}

// Forms are the objects of a list in the form of MCPServers. They share memory with
// the list.
func Forms(list List) []v1alpha1.MCPServer {
	switch l := list.(type) {
	case *v1alpha1.MCPServerList:
		return l.Items
	case *v1alpha1.MCPRemoteProxyList:
		forms := make([]v1alpha1.MCPServer, len(l.Items))
		for i := range l.Items {
			forms[i] = *remote(&l.Items[i])
		}
		return forms
	}
	return nil
}
