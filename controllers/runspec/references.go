package runspec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// Reference is a ConfigMap or Secret that the backend's pods read.
type Reference struct {
	Kind, Name string
	// Optional says that pods start without it.
	Optional bool
}

func (r Reference) String() string { return r.Kind + "/" + r.Name }

// mostNamed are as many references as a person reads in a message.
const mostNamed = 10

// Named are references in words, the first ones of many.
func Named(refs []Reference) string {
	names := make([]string, 0, mostNamed+1)
	for _, ref := range refs[:min(len(refs), mostNamed)] {
		names = append(names, ref.String())
	}
	if more := len(refs) - mostNamed; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// References are the ConfigMaps and Secrets that the pods of a backend read, each once, sorted. Content has them by
// name alone.
func References(of runconfig.Backend) []Reference {
	var all references
	all.container(of.Env, of.EnvFrom)
	pod := corev1.PodSpec{Volumes: of.Volumes, ImagePullSecrets: of.ImagePullSecrets}
	all.pod(&pod)
	var overlay corev1.PodTemplateSpec
	if of.PodTemplate != nil && json.Unmarshal(of.PodTemplate, &overlay) == nil {
		all.pod(&overlay.Spec)
	}
	slices.SortFunc(all, func(a, b Reference) int {
		required := func(r Reference) int { // it comes before the same that is optional
			if r.Optional {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(required(a), required(b)))
	})
	return slices.CompactFunc(all, func(a, b Reference) bool { return a.Kind == b.Kind && a.Name == b.Name })
}

type references []Reference

func (r *references) add(kind, name string, optional *bool) {
	if name != "" {
		*r = append(*r, Reference{Kind: kind, Name: name, Optional: optional != nil && *optional})
	}
}

const (
	configMap = "ConfigMap"
	secret    = "Secret"
)

func (r *references) pod(pod *corev1.PodSpec) {
	for _, s := range pod.ImagePullSecrets {
		r.add(secret, s.Name, new(true)) // kubelet pulls without it where it can
	}
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range list {
			r.container(list[i].Env, list[i].EnvFrom)
		}
	}
	for i := range pod.Volumes {
		r.volume(&pod.Volumes[i].VolumeSource)
	}
}

func (r *references) container(env []corev1.EnvVar, from []corev1.EnvFromSource) {
	for i := range env {
		source := cmp.Or(env[i].ValueFrom, &corev1.EnvVarSource{})
		if ref := source.ConfigMapKeyRef; ref != nil {
			r.add(configMap, ref.Name, ref.Optional)
		}
		if ref := source.SecretKeyRef; ref != nil {
			r.add(secret, ref.Name, ref.Optional)
		}
	}
	for _, source := range from {
		if ref := source.ConfigMapRef; ref != nil {
			r.add(configMap, ref.Name, ref.Optional)
		}
		if ref := source.SecretRef; ref != nil {
			r.add(secret, ref.Name, ref.Optional)
		}
	}
}

func (r *references) volume(source *corev1.VolumeSource) {
	if v := source.ConfigMap; v != nil {
		r.add(configMap, v.Name, v.Optional)
	}
	if v := source.Secret; v != nil {
		r.add(secret, v.SecretName, v.Optional)
	}
	if source.Projected == nil {
		return
	}
	for _, part := range source.Projected.Sources {
		if v := part.ConfigMap; v != nil {
			r.add(configMap, v.Name, v.Optional)
		}
		if v := part.Secret; v != nil {
			r.add(secret, v.Name, v.Optional)
		}
	}
}
