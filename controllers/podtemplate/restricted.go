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
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted): they
// share a network with the runner, and one that becomes root there reads the tokens of
// callers off it. The library of Pod Security admission checks them. A container that leaves
// open what the standard asks for is given it, so that an overlay that has worked works.

// restrictedChecks are the controls that restricted adds to baseline, but for those that
// others find here.
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

// confine gives the containers that an overlay adds to a proxy's pod what restricted asks
// of each container and the overlay leaves open.
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

// confinedPod has what podSecurity states where an overlay states no other.
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

// keptVolumes are the kinds of volumes of a proxy's pod. A driver behind another kind is
// told who the pod is, and may hand out what is for the runner's account alone.
var keptVolumes = []string{
	"configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim",
	"projected", "secret",
}

// loose is what of an overlay of a proxy's pod goes beyond restricted. The pod itself has
// our own securityContext; an overlay that states another clashes with it.
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

// ownContainers are those that the overlay of an MCPRemoteProxy has run beside the proxy.
// Whoever may write one, and nothing else, would run any image by them, which connects to
// what spec.allowedNetworks does not name.
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

// runnerFlags are the arguments that an overlay may give the runner. Others have it read
// other files, or serve where nothing looks for it.
var runnerFlags = []string{"log-format", "log-level"}

// flagValue is no reference to a variable, which kubelet would put in and the runner print.
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
