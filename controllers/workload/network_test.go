package workload

import (
	"encoding/json"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Which pods may connect to a pod of a candidate follows from the labels that pods have, as a network plugin reads
// them: those of the server's proxies, in its namespace.
func TestStrangersReachNeitherSlot(t *testing.T) {
	server := read(t, "full")
	var policy networkingv1.NetworkPolicy
	text, err := json.Marshal(BackendNetworkPolicy(server, options.Release))
	if err == nil {
		err = json.Unmarshal(text, &policy)
	}
	if err != nil {
		t.Fatal(err)
	}
	rendered := sound(t, server, options)
	proxy, err := rendered.Proxy(7)
	if err != nil {
		t.Fatal(err)
	}
	key, allowed := server.Name, proxy.Spec.Template.Labels
	strangers := map[string]map[string]string{
		"a pod of nobody":           {},
		"a pod of another workload": {"app.kubernetes.io/component": ComponentProxy, "app.kubernetes.io/name": key},
		"another server's proxy":    Labels("other", ComponentProxy),
		"the backend of slot 1":     Labels(key, Slot1.Component()),
		"the backend of slot 2":     Labels(key, Slot2.Component()),
	}
	for _, slot := range Slots {
		backend, err := Backend(rendered.Claimed(7), slot)
		if err != nil {
			t.Fatal(err)
		}
		pod := backend.Spec.Template.Labels
		if !connects(t, policy, allowed, pod) {
			t.Errorf("a proxy does not reach slot %d", slot)
		}
		for who, has := range strangers {
			if connects(t, policy, has, pod) {
				t.Errorf("%s reaches slot %d", who, slot)
			}
		}
	}
}

// connects reports whether a policy lets a pod connect to another one of its namespace
// (https://kubernetes.io/docs/concepts/services-networking/network-policies/#the-two-sorts-of-pod-isolation).
func connects(t *testing.T, policy networkingv1.NetworkPolicy, from, to map[string]string) bool {
	t.Helper()
	matches := func(selector *metav1.LabelSelector, has map[string]string) bool {
		selects, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		return selects.Matches(labels.Set(has))
	}
	if !matches(&policy.Spec.PodSelector, to) ||
		!slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
		return true // nothing isolates it
	}
	for _, rule := range policy.Spec.Ingress {
		if len(rule.From) == 0 {
			return true
		}
		for _, peer := range rule.From {
			if peer.NamespaceSelector != nil || peer.IPBlock != nil {
				t.Fatalf("pods of other namespaces are let in: %+v", peer)
			}
			if matches(peer.PodSelector, from) {
				return true
			}
		}
	}
	return false
}
