package podtemplate

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// What the API server refuses in a Deployment, StatefulSet or Service, it refuses after the content was claimed and
// partly written. So common mistakes are found before; all others are reported from the API server's answer. The
// rules are those of https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/validation/validation.go.

// invalid finds what is wrong with one value of a core type by itself.
func invalid(at spot) []Problem {
	value := reflect.Indirect(at.value)
	if !value.IsValid() {
		return nil
	}
	switch v := value.Interface().(type) {
	case corev1.EnvVar:
		if v.Name != "" && len(validation.IsRelaxedEnvVarName(v.Name)) > 0 {
			return []Problem{{
				at.path + ".name",
				"no variable has such a name: write printable ASCII without =, for example LOG_LEVEL",
			}}
		}
	case corev1.EnvVarSource:
		return oneSource(at.path, v)
	case corev1.EnvFromSource:
		return oneSource(at.path, v)
	case corev1.SecretKeySelector:
		return named(at.path, v.Name)
	case corev1.ConfigMapKeySelector:
		return named(at.path, v.Name)
	case corev1.SecretEnvSource:
		return named(at.path, v.Name)
	case corev1.ConfigMapEnvSource:
		return named(at.path, v.Name)
	case corev1.Volume:
		return append(label(at.path, v.Name), oneSource(at.path, v.VolumeSource)...)
	case corev1.Container:
		return label(at.path, v.Name)
	case corev1.VolumeMount:
		if strings.Contains(v.MountPath, ":") {
			return []Problem{{
				at.path + ".mountPath",
				"no path holds a colon: write where in the container the volume appears, for example /data",
			}}
		}
	case corev1.ContainerPort:
		return port(at.path, v)
	case v1alpha1.Resources:
		return above(at.path, v.Limits, v.Requests)
	case corev1.ResourceRequirements:
		return above(at.path, v.Limits, v.Requests)
	}
	return nil
}

// label checks that a name is a DNS label, because names of pods contain it.
func label(path, name string) []Problem {
	if name == "" || len(validation.IsDNS1123Label(name)) == 0 {
		return nil
	}
	return []Problem{{
		path + ".name",
		"no container or volume has such a name: write at most 63 lower-case letters, digits and -, for example cache",
	}}
}

func named(path, name string) []Problem {
	if name != "" {
		return nil
	}
	return []Problem{{path + ".name", "missing: write the name of the Secret or ConfigMap"}}
}

func port(path string, p corev1.ContainerPort) []Problem {
	var problems []Problem
	if p.ContainerPort < 0 || p.ContainerPort > 65535 {
		problems = append(problems, Problem{path + ".containerPort", "no such port: write 1 to 65535"})
	}
	if p.Name != "" && len(validation.IsValidPortName(p.Name)) > 0 {
		problems = append(problems, Problem{
			path + ".name",
			"no port has such a name: write at most 15 lower-case letters, digits and -, for example metrics",
		})
	}
	return problems
}

func above(path string, limits, requests corev1.ResourceList) []Problem {
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		limit, limited := limits[name]
		if request := requests[name]; limited && request.Cmp(limit) > 0 {
			problems = append(problems, Problem{
				fmt.Sprintf("%s.requests.%s", path, name),
				"above its limit: lower the request or raise the limit",
			})
		}
	}
	return problems
}

// oneSource finds more than one source in a union of the API.
func oneSource(path string, sources any) []Problem {
	var stated []string
	v := reflect.ValueOf(sources)
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Pointer && !v.Field(i).IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			stated = append(stated, name)
		}
	}
	if len(stated) < 2 {
		return nil
	}
	return []Problem{{path, "has both " + strings.Join(stated, " and ") + ": keep one of them"}}
}

// Keys finds labels or annotations that the API server refuses.
func Keys(field string, entries map[string]string, areLabels bool) []Problem {
	var problems []Problem
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		at := fmt.Sprintf("%s[%q]", field, key)
		switch {
		case Reserved(key):
			problems = append(problems, Problem{
				at,
				"only Freehold writes freehold.dev/ and app.kubernetes.io/ here: choose another prefix",
			})
		case len(content.IsLabelKey(strings.ToLower(key))) > 0:
			problems = append(problems, Problem{
				at,
				"no label or annotation has such a key: write letters, digits, - _ and . with a domain before it if you like, " +
					"for example example.com/team",
			})
		case areLabels && len(content.IsLabelValue(entries[key])) > 0:
			problems = append(problems, Problem{
				at,
				"no label has such a value: write at most 63 letters, digits, - _ and ., or use an annotation",
			})
		}
	}
	return problems
}

// incomplete finds what the parts of a pod template need of each other: every container a unique name and an image,
// every mount a volume or a claim. The mounts of run are those of the spec, where they are reported.
func incomplete(field string, template *corev1ac.PodTemplateSpecApplyConfiguration, run runconfig.Backend) []Problem {
	volumes := map[string]bool{}
	for _, c := range run.VolumeClaimTemplates {
		volumes[c.Name] = true
	}
	for _, v := range template.Spec.Volumes {
		volumes[*v.Name] = true
	}
	var problems []Problem
	taken := map[string]bool{}
	check := func(list string, containers []corev1ac.ContainerApplyConfiguration) {
		for i, c := range containers {
			at := fmt.Sprintf("%s.spec.%s[name=%s]", field, list, *c.Name)
			if taken[*c.Name] { // in the other list: names are the keys of each
				problems = append(problems, Problem{at + ".name", "another container of this pod has this name: choose another"})
			}
			taken[*c.Name] = true
			ours := i == 0 && list == "containers" // of which the spec or the operator says the image
			if !ours && (c.Image == nil || strings.TrimSpace(*c.Image) == "") {
				problems = append(problems, Problem{
					at + ".image",
					"missing: write the image of this container, or give it the name of Freehold's to add to that",
				})
			}
			for _, m := range c.VolumeMounts {
				if m.Name != nil && volumes[*m.Name] {
					continue
				}
				problems = append(problems, unmounted(at, m, run.VolumeMounts))
			}
		}
	}
	check("containers", template.Spec.Containers)
	check("initContainers", template.Spec.InitContainers)
	return problems
}

func unmounted(container string, m corev1ac.VolumeMountApplyConfiguration, userMounts []corev1.VolumeMount) Problem {
	at := fmt.Sprintf("volumeMounts[mountPath=%s].name", *m.MountPath)
	if slices.ContainsFunc(userMounts, func(u corev1.VolumeMount) bool { return u.MountPath == *m.MountPath }) {
		return Problem{"spec." + at, "there is no volume of this name: add it to spec.volumes, or correct the name"}
	}
	return Problem{container + "." + at, "there is no volume of this name: add it to the volumes, or correct the name"}
}

// Reserved reports whether only Freehold sets a label or annotation of this key on its objects.
func Reserved(key string) bool {
	return strings.HasPrefix(key, "freehold.dev/") || strings.HasPrefix(key, "app.kubernetes.io/")
}
