package podtemplate

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podFields do not belong in the spec of a template.
var podFields = map[string]string{
	"activeDeadlineSeconds": "these pods run until they are replaced: remove it",
	"ephemeralContainers":   "a template has none: use kubectl debug on a pod",
	"serviceAccount":        "is an old name of serviceAccountName: remove it",
}

// unsuitable finds what an overlay must not state, whatever we state.
func (o overlay) unsuitable(template *corev1.PodTemplateSpec) []Problem {
	problems := Check(o.field, template)
	problems = append(problems, o.metadata(template.ObjectMeta)...)
	problems = append(problems, breaches(o.field, template)...)
	problems = append(problems, o.asRoot(template)...)
	for _, problem := range o.loose(template) {
		// What exceeds baseline exceeds restricted, too.
		if !slices.ContainsFunc(problems, func(p Problem) bool { return strings.HasPrefix(p.Field, problem.Field) }) {
			problems = append(problems, problem)
		}
	}
	problems = append(problems, o.reachesToken(template)...)
	problems = append(problems, o.reachesBridge(template)...)
	fields, err := toFields(template.Spec)
	if err != nil {
		return append(problems, Problem{o.field, err.Error()})
	}
	at := o.field + ".spec."
	for name, message := range podFields {
		if _, stated := fields[name]; stated {
			problems = append(problems, Problem{at + name, message})
		}
	}
	if policy := template.Spec.RestartPolicy; policy != "" && policy != corev1.RestartPolicyAlways {
		problems = append(problems, Problem{at + "restartPolicy", "these pods are always restarted: remove it"})
	}
	// Even if we state none: with it alone the pod would get no token.
	if instead := o.instead["serviceAccountName"]; instead != "" && template.Spec.ServiceAccountName != "" {
		problems = append(problems, Problem{at + "serviceAccountName", "remove it here and set " + instead})
	}
	return problems
}

// metadata accepts labels and annotations of other owners.
func (o overlay) metadata(meta metav1.ObjectMeta) []Problem {
	fields, err := toFields(meta)
	if err != nil {
		return []Problem{{o.field + ".metadata", err.Error()}}
	}
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name != "labels" && name != "annotations" {
			problems = append(problems, Problem{
				o.field + ".metadata." + name,
				"a pod template of a server has only labels and annotations: remove it",
			})
		}
	}
	problems = append(problems, Keys(o.field+".metadata.labels", meta.Labels, true)...)
	problems = append(problems, Keys(o.field+".metadata.annotations", meta.Annotations, false)...)
	return append(problems, o.injected(meta.Annotations)...)
}

// Check finds, anywhere below a value of core types: items without their key, what no pod may have, and empty values
// that would be lost. An intent cannot carry an empty object (the server answers 422 to later applies), yet some have
// a meaning.
func Check(field string, value any) []Problem {
	var problems []Problem
	walk(field, reflect.ValueOf(value), func(at spot) {
		if at.missing != "" {
			problems = append(problems, Problem{
				at.path + "." + at.missing,
				"missing: write it, every item of this list has one",
			})
			return
		}
		if message, ok := lost(at); ok {
			problems = append(problems, Problem{at.path, message})
			return
		}
		problems = append(problems, invalid(at)...)
	})
	return problems
}

var (
	volumeSource  = reflect.TypeFor[corev1.VolumeSource]()
	envVarSource  = reflect.TypeFor[*corev1.EnvVarSource]()
	labelSelector = reflect.TypeFor[*metav1.LabelSelector]()
)

// lost reports whether a value is empty and has a meaning by its presence.
func lost(at spot) (string, bool) {
	isItem := at.in == nil
	var message string
	switch {
	case isItem && at.value.Kind() == reflect.Struct:
		message = "an empty item cannot be applied: remove it"
	case at.value.Type() == labelSelector:
		message = "an empty selector cannot be applied: write a label that everything it should match has"
	case at.value.Type() == envVarSource:
		message = "names no source: write one, or value"
	case at.in == volumeSource && at.name != "emptyDir":
		message = "an empty volume source cannot be applied: write what it holds"
	default:
		return "", false // an empty emptyDir is what a volume without source is
	}
	fields, err := toFields(at.value.Interface())
	return message, err == nil && len(fields) == 0
}
