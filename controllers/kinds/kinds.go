// Package kinds knows the kinds of objects that have a proxy. Whoever looks at the
// proxy, its children and its status takes an Object of any of them. It is pure.
package kinds

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
)

// Object is an object of a kind with a proxy.
type Object interface {
	metav1.Object
	runtime.Object
	GetProxySpec() *v1alpha1.ProxyWorkloadSpec
	GetProxyStatus() *v1alpha1.ProxyWorkloadStatus
	ConfigRefs() []v1alpha1.ConfigRef
}

// List is a list of objects of one kind.
type List interface {
	metav1.ListInterface
	runtime.Object
}

// Kind is a kind of object that has a proxy.
type Kind struct {
	contract.Workload
	New     func() Object
	NewList func() List
	status  func(name, namespace string,
		status *v1alpha1ac.ProxyWorkloadStatusApplyConfiguration) runtime.ApplyConfiguration
}

// Servers is the kind MCPServer.
func Servers() Kind {
	return Kind{
		Workload: contract.MCPServers(),
		New:      func() Object { return &v1alpha1.MCPServer{} },
		NewList:  func() List { return &v1alpha1.MCPServerList{} },
		status: func(name, namespace string,
			status *v1alpha1ac.ProxyWorkloadStatusApplyConfiguration,
		) runtime.ApplyConfiguration {
			return v1alpha1ac.MCPServer(name, namespace).
				WithStatus(&v1alpha1ac.MCPServerStatusApplyConfiguration{ProxyWorkloadStatusApplyConfiguration: *status})
		},
	}
}

// RemoteProxies is the kind MCPRemoteProxy.
func RemoteProxies() Kind {
	return Kind{
		Workload: contract.MCPRemoteProxies(),
		New:      func() Object { return &v1alpha1.MCPRemoteProxy{} },
		NewList:  func() List { return &v1alpha1.MCPRemoteProxyList{} },
		status: func(name, namespace string,
			status *v1alpha1ac.ProxyWorkloadStatusApplyConfiguration,
		) runtime.ApplyConfiguration {
			return v1alpha1ac.MCPRemoteProxy(name, namespace).
				WithStatus(&v1alpha1ac.MCPRemoteProxyStatusApplyConfiguration{ProxyWorkloadStatusApplyConfiguration: *status})
		},
	}
}

var (
	all    = []Kind{Servers(), RemoteProxies()}
	byKind = func() map[string]Kind {
		kinds := map[string]Kind{"": all[0]}
		for _, k := range all {
			kinds[k.Object.Kind] = k
		}
		return kinds
	}()
	byType = func() map[reflect.Type]Kind {
		kinds := map[reflect.Type]Kind{}
		for _, k := range all {
			kinds[reflect.TypeOf(k.New())] = k
		}
		return kinds
	}()
)

// All are the kinds.
func All() []Kind { return all }

// Named is the kind of this name, and whether there is one. No name is that of an
// MCPServer, which a run config leaves out.
func Named(kind string) (Kind, bool) {
	k, ok := byKind[kind]
	return k, ok
}

// Of is the kind of an object, by its Go type: a client leaves the TypeMeta of what it reads empty.
func Of(object Object) Kind { return byType[reflect.TypeOf(object)] }

// Status is an intent about the status of the object.
func Status(object Object, status *v1alpha1ac.ProxyWorkloadStatusApplyConfiguration) runtime.ApplyConfiguration {
	return Of(object).status(object.GetName(), object.GetNamespace(), status)
}

// KeyOf identifies an object among those of all kinds in its namespace, by the suffix of its kind: NAME for an
// MCPServer, which has none, else NAME.SUFFIX, and no name holds a dot.
func KeyOf(name, suffix string) string {
	if suffix == "" {
		return name
	}
	return name + "." + suffix
}

// SplitKey is the name and the suffix of KeyOf.
func SplitKey(key string) (name, suffix string) {
	name, suffix, _ = strings.Cut(key, ".")
	return name, suffix
}

// Key is that of the object of the kind with this name.
func (k Kind) Key(name string) string { return KeyOf(name, k.Suffix) }

// Key is that of an object.
func Key(object Object) string { return Of(object).Key(object.GetName()) }

// OfKey is the kind and name of the object with this key; the kind is zero if none has its suffix.
func OfKey(key string) (kind Kind, name string) {
	name, suffix := SplitKey(key)
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

// Items are the objects of a list. They share memory with it.
func Items(list List) []Object {
	switch l := list.(type) {
	case *v1alpha1.MCPServerList:
		return pointers(l.Items)
	case *v1alpha1.MCPRemoteProxyList:
		return pointers(l.Items)
	}
	return nil
}

func pointers[T any, P interface {
	*T
	Object
}](items []T) []Object {
	objects := make([]Object, len(items))
	for i := range items {
		objects[i] = P(&items[i])
	}
	return objects
}

// IsReady reports whether an object says that it is ready.
func IsReady(object Object) bool {
	return meta.IsStatusConditionTrue(object.GetProxyStatus().Conditions, v1alpha1.ConditionReady)
}

// BackendReplicas is how many pods the backend is to have: 0 while the object is
// suspended, else 1 where the spec does not say, or the kind has no backend.
func BackendReplicas(object Object) int32 {
	if object.GetProxySpec().Suspend {
		return 0
	}
	if server, ok := object.(*v1alpha1.MCPServer); ok {
		return ptr.Deref(server.Spec.Replicas, 1)
	}
	return 1
}
