package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	kjson "sigs.k8s.io/json"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// stored are the types in which the server keeps each intent.
var stored = map[string]func() any{
	"serviceaccount":   func() any { return &corev1.ServiceAccount{} },
	"role":             func() any { return &rbacv1.Role{} },
	"rolebinding":      func() any { return &rbacv1.RoleBinding{} },
	"networkpolicy":    func() any { return &networkingv1.NetworkPolicy{} },
	"run-config":       func() any { return &corev1.ConfigMap{} },
	"proxy":            func() any { return &appsv1.Deployment{} },
	"proxy-service":    func() any { return &corev1.Service{} },
	"backend":          func() any { return &appsv1.StatefulSet{} },
	"backend-service":  func() any { return &corev1.Service{} },
	"backend-headless": func() any { return &corev1.Service{} },
}

// An intent that the core types write differently is one that the server rewrites: an empty text, a quantity of 1000m.
func TestIntentsAreWhatTheServerStores(t *testing.T) {
	each(t, []string{"minimal", "full", "odd"}, func(t *testing.T, kind string, fields map[string]any) {
		object := stored[kind]()
		strict, err := kjson.UnmarshalStrict(encoded(t, fields), object)
		if err != nil || len(strict) > 0 {
			t.Fatal(err, strict)
		}
		again, err := podtemplate.Canonical(object)
		if err != nil {
			t.Fatal(err)
		}
		delete(again, "status")
		unsourced(fields)
		if diff := cmp.Diff(again, fields); diff != "" {
			t.Errorf("(-stored +stated):\n%s", diff)
		}
	})
}

// unsourced takes away the emptyDir of a volume that names no source: podtemplate.Stated
// puts it there, and the canonical form, of which the hash is made, is without.
func unsourced(value any) {
	switch v := value.(type) {
	case []any:
		for _, child := range v {
			unsourced(child)
		}
	case map[string]any:
		maps.DeleteFunc(v, func(key string, child any) bool {
			empty, is := child.(map[string]any)
			unsourced(child)
			return key == "emptyDir" && is && len(empty) == 0
		})
	}
}

func TestIntentsHoldNothingEmpty(t *testing.T) {
	each(t, []string{"minimal", "full"}, func(t *testing.T, _ string, fields map[string]any) {
		for _, path := range empties("", fields) {
			t.Errorf("%s is empty", path)
		}
	})
}

// empties are the paths of empty values, without those that mean something: an
// argument, the value of a user's label, annotation or node selector, and an emptyDir.
func empties(path string, value any) []string {
	var found []string
	switch v := value.(type) {
	case nil:
		found = append(found, path)
	case string:
		means := strings.Contains(path, ".args[") || strings.Contains(path, "example.com/") ||
			strings.Contains(path, ".apiGroups[")
		if v == "" && !means {
			found = append(found, path)
		}
	case []any:
		if len(v) == 0 {
			found = append(found, path)
		}
		for i, child := range v {
			found = append(found, empties(fmt.Sprintf("%s[%d]", path, i), child)...)
		}
	case map[string]any:
		if len(v) == 0 && !strings.HasSuffix(path, ".emptyDir") {
			found = append(found, path)
		}
		for key, child := range v {
			found = append(found, empties(path+"."+key, child)...)
		}
	}
	return found
}

func TestIntentsStayWithinTheContract(t *testing.T) {
	managers := map[string]ownership.Manager{
		"backend":          contract.RunnerBackend,
		"backend-service":  contract.RunnerBackend,
		"backend-headless": contract.RunnerBackend,
		"role":             contract.RBACChildren,
		"rolebinding":      contract.RBACChildren,
	}
	for _, server := range []*v1alpha1.MCPServer{read(t, "minimal"), read(t, "full")} {
		for kind, object := range objects(t, server) {
			manager, ok := managers[kind]
			if !ok {
				manager = contract.MCPServerChildren
			}
			t.Run(server.Name+"/"+kind, func(t *testing.T) {
				for _, path := range outside(t, manager, fieldsOf(t, object)) {
					t.Errorf("%s is outside the grant of %s", path, manager)
				}
			})
		}
	}
}

// each runs a test on every intent of the servers.
func each(t *testing.T, servers []string, test func(t *testing.T, kind string, fields map[string]any)) {
	t.Helper()
	for _, name := range servers {
		for kind, object := range objects(t, read(t, name)) {
			t.Run(name+"/"+kind, func(t *testing.T) { test(t, kind, fieldsOf(t, object)) })
		}
	}
}

// fieldsOf is an intent as it goes over the wire.
func fieldsOf(t *testing.T, object any) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(encoded(t, object), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

func encoded(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
