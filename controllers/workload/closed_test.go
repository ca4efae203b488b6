package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// A bridge is told by what it knows proxies, and nobody else's container is. What is told is no part of the content.
func TestABridgeIsToldByWhatItKnowsProxies(t *testing.T) {
	of := func(transport v1alpha1.Transport) func(*v1alpha1.MCPServer) {
		return func(s *v1alpha1.MCPServer) { s.Spec.Transport, s.Spec.Command = transport, []string{"/server"} }
	}
	sse := func(s *v1alpha1.MCPServer) { s.Spec.Transport = v1alpha1.TransportSSE }
	declared := func(s *v1alpha1.MCPServer) {
		s.Spec.Env = append(s.Spec.Env, corev1.EnvVar{Name: "FREEHOLD_PROXY_SHA256", Value: "theirs"})
	}
	for name, tc := range map[string]struct {
		edits []func(*v1alpha1.MCPServer)
		asks  bool
		told  string // the container that is told
	}{
		"streamable-http":                 {nil, false, ""},
		"streamable-http, and declared":   {edits(declared), false, "server=theirs"},
		"stdio":                           {edits(of(v1alpha1.TransportStdio)), true, "server=sum"},
		"stdio, and the spec declares it": {edits(of(v1alpha1.TransportStdio), declared), true, "server=sum"},
		"sse":                             {edits(sse), true, "bridge=sum"},
		"sse, and the spec declares it":   {edits(sse, declared), true, "bridge=sum server=theirs"},
	} {
		server := read(t, "minimal")
		for _, edit := range tc.edits {
			edit(server)
		}
		rendered := sound(t, server, options)
		set, err := Backend(rendered.Claimed(7), Slot1)
		if err != nil {
			t.Fatal(err)
		}
		shared := set.Spec.Template.Spec
		pod := *shared
		if asks := AsksProxies(&pod); asks != tc.asks {
			t.Errorf("%s: it asks proxies: %t", name, asks)
		} else if asks {
			StateProxySum(&pod, "sum")
		}
		if AsksProxies(shared) != tc.asks {
			t.Errorf("%s: what is remembered has changed", name)
		}
		told, live := "", corev1.PodSpec{}
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			container := corev1.Container{Name: *c.Name}
			for _, variable := range c.Env {
				value := ptr.Deref(variable.Value, "")
				container.Env = append(container.Env, corev1.EnvVar{Name: *variable.Name, Value: value})
				if isProxySum(variable) {
					told += *c.Name + "=" + value + " "
				}
			}
			live.Containers = append(live.Containers, container)
		}
		if want := tc.told + " "; told != want && told+tc.told != "" {
			t.Errorf("%s: told %q, want %q", name, told, want)
		}
		if says := ProxySum(live); tc.asks && says != "sum" {
			t.Errorf("%s: the pod says %q", name, says)
		}
	}
}

// What there is stays as it is, whatever else a release brings: a bridge that was told nothing is told nothing.
func TestContentOfAnEarlierReleaseAsksNobody(t *testing.T) {
	for _, name := range []string{"stdio", "sse"} {
		server, _ := active(t, name)
		before := renderings{scratch}.render(Input{server, options.Configs, Contents{}}, options.Release)
		set, err := Backend(before.Claimed(7), Slot1)
		if err != nil {
			t.Fatal(err)
		}
		if AsksProxies(set.Spec.Template.Spec) {
			t.Errorf("%s: an upgrade would replace its pods", name)
		}
	}
	if AsksProxies(corev1ac.PodSpec()) {
		t.Error("an empty pod asks")
	}
}
