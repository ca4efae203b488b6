package podtemplate

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"
)

// All containers of a proxy's pod meet the "restricted" Pod Security Standard
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted): they share the runner's network,
// on which root could read callers' tokens. The library of Pod Security admission checks them. What the standard
// requires and a container leaves open is filled in, so that existing overlays keep working.

// restrictedChecks are the controls that restricted adds to baseline, except those checked elsewhere here.
var restrictedChecks = func() []control {
	var controls []control
	for _, check := range policy.DefaultChecks() {
		c, known := insteadRestricted[check.ID]
		if check.Level != api.LevelRestricted || known && c.instead == "" {
			continue
		}
		c.check = check.Versions[len(check.Versions)-1].CheckPod
		controls = append(controls, c)
	}
	return controls
}()

var insteadRestricted = map[policy.CheckID]control{
	"allowPrivilegeEscalation": {
		fields:  []string{"allowPrivilegeEscalation"},
		instead: "remove it, and Freehold states false",
	},
	"capabilities_restricted": {
		fields:  []string{"capabilities"},
		instead: "drop ALL or nothing, which Freehold makes ALL, and add NET_BIND_SERVICE alone",
	},
	"procMount_restricted": {fields: []string{"procMount"}, instead: "remove it"},
	"restrictedVolumes":    {}, // keptVolumes are fewer
	"runAsNonRoot":         {}, // asRoot finds it
	"runAsUser":            {},
	"seccompProfile_restricted": {
		fields:  []string{"seccompProfile"},
		instead: "write the type RuntimeDefault or Localhost, or remove it",
	},
}

// confine fills in for containers of an overlay what restricted requires of each.
func confine(template *corev1.PodTemplateSpec) {
	for _, list := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
		for i := range list {
			if list[i].Name != ProxyContainer {
				list[i].SecurityContext = confined(list[i].SecurityContext)
			}
		}
	}
}

func confined(stated *corev1.SecurityContext) *corev1.SecurityContext {
	if stated == nil {
		stated = &corev1.SecurityContext{}
	}
	s := stated.DeepCopy()
	if s.AllowPrivilegeEscalation == nil {
		s.AllowPrivilegeEscalation = ptr.To(false)
	}
	if s.Capabilities == nil {
		s.Capabilities = &corev1.Capabilities{}
	}
	if len(s.Capabilities.Drop) == 0 {
		s.Capabilities.Drop = []corev1.Capability{"ALL"}
	}
	return s
}

// confinedPod fills in podSecurity where an overlay states nothing else.
func confinedPod(stated *corev1.PodSecurityContext) *corev1.PodSecurityContext {
	if stated == nil {
		stated = &corev1.PodSecurityContext{}
	}
	s := stated.DeepCopy()
	if s.RunAsNonRoot == nil {
		s.RunAsNonRoot = ptr.To(true)
	}
	if s.SeccompProfile == nil {
		s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	return s
}

// keptVolumes are the allowed kinds of volumes of a proxy's pod. A driver of another kind learns the pod's identity,
// and may release what is meant for the runner's account alone.
var keptVolumes = []string{
	"configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim",
	"projected", "secret",
}

// loose finds what exceeds restricted in an overlay of a proxy's pod. The pod has our own securityContext, with which
// another one clashes.
func (o overlay) loose(template *corev1.PodTemplateSpec) []Problem {
	if !o.holdsToken {
		return nil
	}
	var problems []Problem
	for _, part := range parts(template) {
		stated := part.DeepCopy()
		part.Spec.SecurityContext = confinedPod(part.Spec.SecurityContext)
		for _, list := range [][]corev1.Container{part.Spec.InitContainers, part.Spec.Containers} {
			for i := range list {
				list[i].SecurityContext = confined(list[i].SecurityContext)
			}
		}
		problems = append(problems, breaks("restricted", o.field, restrictedChecks, part, stated)...)
	}
	walk(o.field, reflect.ValueOf(template), func(at spot) {
		if at.in == volumeSource && !slices.Contains(keptVolumes, at.name) {
			problems = append(problems, Problem{
				at.path,
				"its driver could give away what is for the runner alone: in a proxy's pod use " + strings.Join(keptVolumes, ", "),
			})
		}
	})
	return problems
}

// ownContainers finds containers that the overlay of an MCPRemoteProxy adds. Otherwise the right to write one would
// be the right to run any image, which reaches what spec.allowedNetworks excludes.
func (o overlay) ownContainers() []Problem {
	template, _ := o.decode()
	if template == nil {
		return nil // which the merge says
	}
	var problems []Problem
	walk(o.field, reflect.ValueOf(template), func(at spot) {
		if c, ok := at.value.Interface().(corev1.Container); ok && c.Name != ProxyContainer {
			problems = append(problems, Problem{
				at.path,
				"the pods of an MCPRemoteProxy run no image of its spec: remove it, or have an administrator set " +
					"remoteProxies.allowContainers of the chart to true, or write it into the chart's proxyDefaults.podTemplate",
			})
		}
	})
	return problems
}

// runnerFlags are the arguments that an overlay may give the runner. Others change the files that it reads, or its
// address.
var runnerFlags = []string{"log-format", "log-level"}

// flagValue excludes references to variables, which kubelet would expand and the runner print.
var flagValue = regexp.MustCompile(`^[A-Za-z]+([+-][0-9]+)?$`)

// refusedArgs is the first argument that is not one of the runner's for overlays.
func refusedArgs(args []string) (string, bool) {
	for i := 0; i < len(args); i++ {
		name, value, has := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(args[i], "-"), "-"), "=")
		if !strings.HasPrefix(args[i], "-") || !slices.Contains(runnerFlags, name) {
			return args[i], true
		}
		if !has && i+1 < len(args) {
			i++
			value = args[i]
		}
		if !flagValue.MatchString(value) {
			return args[i], true
		}
	}
	return "", false
}
