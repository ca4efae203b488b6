package controllers

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// proxyOf is the proxy of a server as a watch brings it: no part of it is another's.
func proxyOf(server, cpu string) *appsv1.Deployment {
	word := strings.Clone
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: word("team"), Name: word(server + "-proxy"),
			Labels: map[string]string{
				word("freehold.dev/server"):    word(server),
				word("app.kubernetes.io/name"): word("proxy"),
			},
			Annotations: map[string]string{word("freehold.dev/workload-generation"): word("1")},
			OwnerReferences: []metav1.OwnerReference{
				{
					APIVersion: word("freehold.dev/v1alpha1"), Kind: word("MCPServer"), Name: word(server),
					UID: types.UID(word("uid-" + server)), Controller: new(true),
				},
			},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: word("mcpserver.freehold.dev/children"), APIVersion: word("apps/v1"), FieldsType: word("FieldsV1")},
			},
		},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			ServiceAccountName: word(server + "-runner"),
			SecurityContext:    &corev1.PodSecurityContext{RunAsNonRoot: new(true)},
			Containers: []corev1.Container{{
				Name: "proxy", Image: word("runner:1"),
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}},
			}},
			Volumes: []corev1.Volume{
				{Name: "token", VolumeSource: corev1.VolumeSource{
					Projected: &corev1.ProjectedVolumeSource{DefaultMode: new(int32(420))},
				}},
				{Name: "session", VolumeSource: corev1.VolumeSource{
					Secret: &corev1.SecretVolumeSource{SecretName: word(server + "-session")},
				}},
			},
		}}},
	}
}

func (s *interner) of(t *testing.T, proxy *appsv1.Deployment) *appsv1.Deployment {
	t.Helper()
	kept, err := s.trim(proxy)
	if err != nil {
		t.Fatal(err)
	}
	return kept.(*appsv1.Deployment)
}

// What proxies have in common is there once, what they have not stays theirs, and none says anything else than before.
func TestProxiesShareWhatTheyHaveInCommon(t *testing.T) {
	s := newInterner()
	a, b, c := s.of(t, proxyOf("a", "10m")), s.of(t, proxyOf("b", "10m")), s.of(t, proxyOf("c", "20m"))
	for server, kept := range map[string]*appsv1.Deployment{"a": a, "b": b} {
		if want := proxyOf(server, "10m"); !equality.Semantic.DeepEqual(kept, want) {
			t.Errorf("of %s it keeps %+v", server, kept)
		}
	}
	if got := c.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String(); got != "20m" {
		t.Errorf("c asks for %s", got)
	}
	at := func(text string) *byte { return unsafe.StringData(text) }
	pod := func(d *appsv1.Deployment) *corev1.PodSpec { return &d.Spec.Template.Spec }
	for what, same := range map[string]bool{
		"containers":       &pod(a).Containers[0] == &pod(b).Containers[0],
		"security context": pod(a).SecurityContext == pod(b).SecurityContext,
		"token":            pod(a).Volumes[0].Projected == pod(b).Volumes[0].Projected,
		"namespace":        at(a.Namespace) == at(b.Namespace),
		"kind of owner":    at(a.OwnerReferences[0].Kind) == at(b.OwnerReferences[0].Kind),
		"manager":          at(a.ManagedFields[0].Manager) == at(b.ManagedFields[0].Manager),
		"server":           at(a.OwnerReferences[0].Name) == at(a.Labels["freehold.dev/server"]),
	} {
		if !same {
			t.Errorf("the %s is there twice", what)
		}
	}
	s.of(t, proxyOf("a", "10m")).Labels["seen"] = "twice"
	if a.Labels["seen"] != "twice" || len(b.Labels) != 2 {
		t.Errorf("labels that say the same are there twice, or others are one: %v, %v", a.Labels, b.Labels)
	}
	if &pod(a).Containers[0] == &pod(c).Containers[0] {
		t.Error("proxies share a container that differs")
	}
}

// Roles differ in whom they name.
func TestRolesShareTheirVerbs(t *testing.T) {
	s := newInterner()
	role := func(server string) *rbacv1.Role {
		kept, err := s.trim(&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Name: server + "-runner", Labels: map[string]string{"freehold.dev/server": server}},
			Rules: []rbacv1.PolicyRule{
				{
					Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"services"},
					ResourceNames: []string{server},
				},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return kept.(*rbacv1.Role)
	}
	a, b := role("a"), role("b")
	want := []rbacv1.PolicyRule{{
		Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"services"},
		ResourceNames: []string{"b"},
	}}
	if !reflect.DeepEqual(b.Rules, want) || a.Rules[0].ResourceNames[0] != "a" {
		t.Errorf("of a it keeps %v, and of b %v", a.Rules, b.Rules)
	}
	if &a.Rules[0].Verbs[0] != &b.Rules[0].Verbs[0] {
		t.Error("the verbs are there twice")
	}
	// A relist brings an object to it twice.
	verbs := &a.Rules[0].Verbs[0]
	*verbs = strings.Clone(*verbs)
	before := unsafe.StringData(*verbs)
	if _, err := s.trim(a); err != nil || unsafe.StringData(*verbs) != before {
		t.Error("it writes to a list that others read", err)
	}
	for i := range maxTexts + 1 {
		role(fmt.Sprint("server-", i))
	}
	role(megabyte)
	for list := range s.lists {
		if len(s.lists) > maxTexts || len(list) > 2*maxTextLength {
			t.Fatalf("it keeps %d lists, one of %d bytes", len(s.lists), len(list))
		}
	}
}

// Texts and parts of whoever comes and goes do not add up.
func TestWhatIsSharedIsBounded(t *testing.T) {
	s := newInterner()
	for i := range maxTexts {
		name := fmt.Sprint("server-", i)
		s.of(t, proxyOf(name, fmt.Sprintf("%dm", i+1)))
	}
	if len(s.texts) > maxTexts || len(s.maps) > maxTexts || len(s.parts) > maxParts {
		t.Errorf("it keeps %d texts, %d maps and %d parts", len(s.texts), len(s.maps), len(s.parts))
	}
	large := proxyOf("large", "10m")
	argument := megabyte[:8<<10]
	large.Spec.Template.Spec.Containers[0].Args = []string{argument}
	large.Annotations["note"] = argument
	s = newInterner()
	kept := s.of(t, large)
	if !reflect.DeepEqual(kept.Spec.Template.Spec.Containers[0].Args, []string{argument}) ||
		kept.Annotations["note"] != argument {
		t.Error("a large proxy is kept in part")
	}
	for text := range s.texts {
		if len(text) > maxTextLength {
			t.Errorf("a text of %d bytes is kept", len(text))
		}
	}
	for _, all := range s.maps {
		if _, ok := all["note"]; ok {
			t.Error("a map with a large value is kept")
		}
	}
	for _, part := range s.parts {
		if part.Size() > maxPartSize {
			t.Errorf("a part of %d bytes is kept", part.Size())
		}
	}
}
