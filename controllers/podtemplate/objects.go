package podtemplate

import (
	"fmt"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ObjectDefaults are a release's metadata of every object of a server, except pods, whose metadata is that of their
// templates.
type ObjectDefaults struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// InheritLabels are keys of labels that a server passes to its objects; they win over the release's.
	InheritLabels []string `json:"inheritLabels,omitempty"`
}

// Metadata is what objects carry beside Freehold's own.
type Metadata struct{ Labels, Annotations map[string]string }

// Of is the metadata of a server's objects.
func (d ObjectDefaults) Of(server metav1.Object) Metadata {
	labels, theirs := map[string]string{}, server.GetLabels()
	for key, value := range d.Labels {
		labels[key] = value
	}
	for _, key := range d.InheritLabels {
		if value, has := theirs[key]; has {
			labels[key] = value
		}
	}
	return Metadata{Labels: labels, Annotations: d.Annotations}
}

// mostKeys bounds the labels, and the annotations, because the status of a server holds them.
const mostKeys = 64

// kubernetes matches keys that Kubernetes gives a meaning for one object.
var kubernetes = regexp.MustCompile(`^([^/]*\.)?(kubernetes|k8s)\.io/`)

// CheckObjects finds metadata that some kind of object must not carry.
func CheckObjects(d ObjectDefaults) []Problem {
	const labels, annotations, inherited = "objectDefaults.labels", "objectDefaults.annotations",
		"objectDefaults.inheritLabels"
	handed := map[string]string{}
	for _, key := range d.InheritLabels {
		handed[key] = ""
	}
	problems := slices.Concat(Keys(labels, d.Labels, true), Keys(annotations, d.Annotations, false),
		Keys(inherited, handed, true))
	for field, entries := range map[string]map[string]string{
		labels: d.Labels, annotations: d.Annotations,
		inherited: handed,
	} {
		for key := range entries {
			if kubernetes.MatchString(key) && !Reserved(key) {
				problems = append(problems, Problem{
					fmt.Sprintf("%s[%q]", field, key),
					"a key of Kubernetes says something of one object, and not of all: choose another prefix",
				})
			}
		}
		if len(entries) > mostKeys {
			problems = append(problems, Problem{
				field,
				fmt.Sprintf("has more than %d keys: keep those that each object needs", mostKeys),
			})
		}
	}
	if both := len(d.Labels) + len(handed); both > mostKeys {
		problems = append(problems, Problem{
			labels,
			fmt.Sprintf("and inheritLabels have more than %d keys together: keep those that each object needs", mostKeys),
		})
	}
	size := 0
	for key, value := range d.Annotations {
		size += len(key) + len(value)
	}
	if size > releaseLimit {
		problems = append(problems, Problem{
			annotations,
			fmt.Sprintf("are longer than %d bytes together: each object and the status of each server has them", releaseLimit),
		})
	}
	return Sorted(problems)
}
