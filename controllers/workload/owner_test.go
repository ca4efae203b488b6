package workload

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// gateway is an owner of a kind that has a proxy and no backend.
func gateway(name string) Owner {
	return Owner{
		APIVersion: "freehold.dev/v1alpha1", Kind: "Gateway", Resource: "gateways", Suffix: "gw",
		Namespace: "team-a", Name: name, UID: "2222",
	}
}

// Names cannot be told apart by a lookup, and a selector that meets another's pods
// could never be changed.
func TestTwoKindsOfOneNameDoNotMeet(t *testing.T) {
	rev, whose := revision.Revision{Generation: 7, Hash: "abc"}, map[string]string{}
	var keys []string
	for _, name := range []string{"echo", "gw", "echo-gw", "echo-proxy", "echo-proxy-gw", "echo-run", "echo-runner", "echo-backend", "echo-backend-headless"} {
		keys = append(keys, Owner{Name: name}.Key(), gateway(name).Key())
	}
	if distinct := slices.Compact(slices.Sorted(slices.Values(keys))); len(distinct) != len(keys) {
		t.Errorf("two owners have one key: %q", keys)
	}
	for _, key := range keys {
		if errs := validation.IsValidLabelValue(key); len(errs) > 0 {
			t.Errorf("no label has the value %q: %v", key, errs)
		}
		for kind, name := range map[string]string{
			"account": RunnerName(key), "ConfigMap": RunConfigName(key, rev), "Deployment": ProxyName(key), "StatefulSet": BackendName(key),
			"Service": ProxyName(key), "Service of the backend": BackendName(key), "headless Service": HeadlessName(key),
		} {
			if kind = kind[:7]; whose[kind+name] != "" && whose[kind+name] != key {
				t.Errorf("%s and %s both have a %s %s", key, whose[kind+name], kind, name)
			}
			whose[kind+name] = key
			if kind == "Service" && len(validation.IsDNS1035Label(name)) > 0 {
				t.Errorf("no Service of %s can be called %s", key, name)
			}
			for _, other := range keys {
				if IsChildName(other, name) != (other == key) {
					t.Errorf("%s is a child of %s: %t", name, other, other != key)
				}
			}
		}
		for _, other := range keys {
			if labels.SelectorFromSet(Selector(key, ComponentProxy)).Matches(labels.Set(Labels(other, ComponentProxy))) != (other == key) {
				t.Errorf("the proxy's selector of %s meets the pods of %s", key, other)
			}
		}
	}
}

// What a second kind takes as it is.
func TestAnOwnerOfAnotherKindHasAProxy(t *testing.T) {
	owner := gateway("echo")
	rendered := RenderProxy(owner, nil, runconfig.RunConfig{Version: runconfig.Version, Proxy: runconfig.Proxy{Port: 8000, Path: "/mcp"}}, options)
	if len(rendered.Problems) > 0 {
		t.Fatal(rendered.Problems)
	}
	proxy, err := rendered.Proxy(7)
	if err != nil {
		t.Fatal(err)
	}
	config, err := rendered.ConfigMap(7)
	if err != nil {
		t.Fatal(err)
	}
	service, account, role, binding := ProxyService(owner, nil), ServiceAccount(owner), Role(owner), RoleBinding(owner)
	pod := proxy.Spec.Template
	for what, pair := range map[string][2]any{
		"the proxy's name":        {"echo-proxy-gw", *proxy.Name},
		"the Service's name":      {"echo-proxy-gw", *service.Name},
		"the account":             {"echo.gw-runner", *account.Name},
		"the account of the pods": {*account.Name, *pod.Spec.ServiceAccountName},
		"the bound account":       {*account.Name, *binding.Subjects[0].Name},
		"the bound role":          {*role.Name, *binding.RoleRef.Name},
		"the mounted run config":  {*config.Name, *pod.Spec.Volumes[0].ConfigMap.Name},
		"the selected pods":       {pod.Labels, map[string]string(labels.Merge(pod.Labels, service.Spec.Selector))},
		"the proxy's own pods":    {pod.Labels, map[string]string(labels.Merge(pod.Labels, proxy.Spec.Selector.MatchLabels))},
		"the first rule":          {[]string{"gateways"}, role.Rules[0].Resources},
		"the number of rules":     {2, len(role.Rules)},
		"the replicas":            {int32(1), *proxy.Spec.Replicas},
		"the address":             {"http://echo-proxy-gw.team-a.svc:8000/mcp", URL(owner, nil, "")},
		"the owner":               {[]metav1ac.OwnerReferenceApplyConfiguration{*owner.reference()}, config.OwnerReferences},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}
