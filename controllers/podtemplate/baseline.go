package podtemplate

import (
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// No pod of a server exceeds the "baseline" Pod Security Standard
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline), also in a namespace without Pod
// Security admission. The library of Pod Security admission checks the pod; this file finds the field that breaks a
// control. restricted.go has what a proxy's pod must not do within baseline.

type control struct {
	check policy.CheckPodFn
	// fields are the names of the fields that it restricts.
	fields []string
	// instead says what to write.
	instead string
}

// instead is our advice by the library's name of a control.
var instead = map[policy.CheckID]control{
	"appArmorProfile": {
		fields:  []string{"appArmorProfile", "annotations"},
		instead: "write the type RuntimeDefault or Localhost, or remove it",
	},
	"capabilities_baseline": {
		fields:  []string{"add"},
		instead: "add only what container runtimes give by default, for example NET_BIND_SERVICE, or remove it",
	},
	"hostNamespaces": {fields: []string{"hostNetwork", "hostPID", "hostIPC"}, instead: "remove it"},
	"hostPathVolumes": {
		fields:  []string{"hostPath"},
		instead: "use a persistentVolumeClaim, emptyDir, configMap or secret",
	},
	"hostPorts":                  {fields: []string{"hostPort"}, instead: "remove it and call the Service"},
	"hostProbesAndHostLifecycle": {fields: []string{"host"}, instead: "remove it, and kubelet asks the pod itself"},
	"privileged":                 {fields: []string{"privileged"}, instead: "remove it"},
	"procMount": {
		fields:  []string{"procMount"},
		instead: "remove it, or write hostUsers: false beside the containers",
	},
	"seLinuxOptions": {
		fields: []string{"seLinuxOptions"},
		instead: "write no user and no role, and of types container_t, container_init_t, container_kvm_t or " +
			"container_engine_t",
	},
	"seccompProfile_baseline": {
		fields:  []string{"seccompProfile"},
		instead: "write the type RuntimeDefault or Localhost, or remove it",
	},
	"sysctls": {
		fields:  []string{"sysctls"},
		instead: "remove it; only sysctls that Kubernetes calls safe are allowed",
	},
	"windowsHostProcess": {fields: []string{"hostProcess"}, instead: "remove it"},
}

// baseline are the controls of the newest version of the standard. A control that is new in the library is checked,
// too, and reported in the library's words.
var baseline = func() []control {
	var controls []control
	for _, check := range policy.DefaultChecks() {
		if check.Level != api.LevelBaseline {
			continue
		}
		c := instead[check.ID]
		c.check = check.Versions[len(check.Versions)-1].CheckPod
		controls = append(controls, c)
	}
	return controls
}()

func breaches(field string, template *corev1.PodTemplateSpec) []Problem {
	var problems []Problem
	for _, part := range parts(template) {
		problems = append(problems, breaks("baseline", field, baseline, part, part)...)
	}
	return problems
}

// breaks lists what a level's controls forbid in a part, at the fields that the user stated.
func breaks(level, field string, controls []control, part, stated *corev1.PodTemplateSpec) []Problem {
	var problems []Problem
	for _, c := range controls {
		result := c.check(&part.ObjectMeta, &part.Spec)
		if result.Allowed {
			continue
		}
		for _, path := range c.paths(field, stated) {
			problems = append(problems, Problem{
				path,
				fmt.Sprintf("breaks the %s Pod Security Standard, control %q: %s", level, result.ForbiddenReason, c.instead),
			})
		}
	}
	return problems
}

// paths are the control's fields in a part that breaks it, or the whole template.
func (c control) paths(field string, part *corev1.PodTemplateSpec) []string {
	var paths []string
	walk(field, reflect.ValueOf(part), func(at spot) {
		if slices.Contains(c.fields, at.name) {
			paths = append(paths, at.path)
		}
	})
	if len(paths) == 0 {
		return []string{join(field, "spec")}
	}
	return paths
}

// parts are templates with one container, volume, sysctl or the rest of the template each, so that a broken control
// points to one field. The standard judges each part by itself, except for hostUsers.
func parts(template *corev1.PodTemplateSpec) []*corev1.PodTemplateSpec {
	rest := template.Spec
	rest.Containers, rest.InitContainers, rest.Volumes = nil, nil, nil
	all := []*corev1.PodTemplateSpec{{ObjectMeta: template.ObjectMeta}, {Spec: rest}}
	add := func(spec corev1.PodSpec) {
		spec.HostUsers = template.Spec.HostUsers
		all = append(all, &corev1.PodTemplateSpec{Spec: spec})
	}
	for _, c := range template.Spec.Containers {
		add(corev1.PodSpec{Containers: []corev1.Container{c}})
	}
	for _, c := range template.Spec.InitContainers {
		add(corev1.PodSpec{InitContainers: []corev1.Container{c}})
	}
	for _, v := range template.Spec.Volumes {
		add(corev1.PodSpec{Volumes: []corev1.Volume{v}})
	}
	return all
}
