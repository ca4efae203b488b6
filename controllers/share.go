package controllers

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The objects of one server repeat each other's strings, and the proxies of all servers each other's templates, but
// each object is decoded into its own copies. These bound what is kept of objects that are gone.
const (
	// maxTexts bounds the kept texts, lists and maps; maxTextLength a text or a whole list. Larger lists and maps than
	// maxListLength are not shared.
	maxTexts, maxTextLength, maxListLength = 1 << 13, 64, 8
	// maxParts bounds the kept parts of pod templates, and maxPartSize each part, as protobuf.
	maxParts, maxPartSize = 1 << 8, 2 << 10
)

// interner lets objects of the cache share equal values. That is safe because readers copy before a change.
type interner struct {
	// labels are those kept of objects of our kinds.
	labels []string

	mu    sync.Mutex
	texts map[string]string
	lists map[string][]string
	maps  map[[sha256.Size]byte]map[string]string
	parts map[[sha256.Size]byte]corev1.PodSpec
}

func newInterner(labels ...string) *interner {
	return &interner{
		labels: labels,
		texts:  map[string]string{}, lists: map[string][]string{},
		maps: map[[sha256.Size]byte]map[string]string{}, parts: map[[sha256.Size]byte]corev1.PodSpec{},
	}
}

// trim is the transform of the cache: it keeps of an object what a pass reads.
func (s *interner) trim(obj any) (any, error) {
	obj = trimForCache(obj, s.labels)
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := obj.(client.Object); ok {
		s.metadata(o)
	}
	switch o := obj.(type) {
	case *appsv1.Deployment:
		s.template(&o.Spec.Template)
	case *rbacv1.Role:
		o.Rules = slices.Clone(o.Rules) // decoding leaves room for more
		for i := range o.Rules {
			for _, list := range []*[]string{
				&o.Rules[i].Verbs, &o.Rules[i].APIGroups, &o.Rules[i].Resources,
				&o.Rules[i].ResourceNames,
			} {
				*list = s.internList(*list)
			}
		}
	case *corev1.Pod:
		s.states(o.Status.InitContainerStatuses)
		s.states(o.Status.ContainerStatuses)
	}
	return obj, nil
}

func (s *interner) metadata(o client.Object) {
	o.SetNamespace(s.intern(o.GetNamespace()))
	o.SetLabels(s.internMap(o.GetLabels()))
	o.SetAnnotations(s.internMap(o.GetAnnotations()))
	owners := o.GetOwnerReferences()
	for i := range owners {
		s.internAll(&owners[i].APIVersion, &owners[i].Kind, &owners[i].Name, (*string)(&owners[i].UID))
	}
	entries := o.GetManagedFields()
	for i := range entries {
		e := &entries[i]
		s.internAll(&e.Manager, (*string)(&e.Operation), &e.APIVersion, &e.FieldsType, &e.Subresource)
	}
}

// template shares the parts of a proxy's template that name no server, unless an overlay does.
func (s *interner) template(t *corev1.PodTemplateSpec) {
	t.Labels, t.Annotations = s.internMap(t.Labels), s.internMap(t.Annotations)
	pod := &t.Spec
	pod.Containers = s.internPart(corev1.PodSpec{Containers: pod.Containers}).Containers
	pod.InitContainers = s.internPart(corev1.PodSpec{InitContainers: pod.InitContainers}).InitContainers
	pod.SecurityContext = s.internPart(corev1.PodSpec{SecurityContext: pod.SecurityContext}).SecurityContext
	for i := range pod.Volumes {
		source := &pod.Volumes[i].VolumeSource
		if source.Projected != nil {
			source.Projected = s.internPart(corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: *source}}}).
				Volumes[0].Projected
		}
	}
}

func (s *interner) states(of []corev1.ContainerStatus) {
	for i := range of {
		s.internAll(&of[i].Name, &of[i].Image)
	}
}

func (s *interner) internPart(one corev1.PodSpec) corev1.PodSpec {
	if size := one.Size(); size == 0 || size > maxPartSize {
		return one
	}
	data, err := one.Marshal()
	if err != nil {
		return one
	}
	return firstStored(s.parts, sha256.Sum256(data), one, maxParts)
}

func (s *interner) internAll(texts ...*string) {
	for _, text := range texts {
		*text = s.intern(*text)
	}
}

func (s *interner) internMap(of map[string]string) map[string]string {
	if len(of) == 0 {
		return nil
	}
	all, hash, small := make(map[string]string, len(of)), sha256.New(), len(of) <= maxListLength
	for _, key := range slices.Sorted(maps.Keys(of)) {
		value := of[key]
		all[s.intern(key)] = s.intern(value)
		small = small && len(value) <= maxTextLength
		fmt.Fprintf(hash, "%q%q", key, value)
	}
	if !small {
		return all
	}
	return firstStored(s.maps, [sha256.Size]byte(hash.Sum(nil)), all, maxTexts)
}

// internList shares short lists, most of which are verbs.
func (s *interner) internList(of []string) []string {
	size := 0
	of = slices.Clone(of) // it may be one that is shared already
	for i := range of {
		of[i] = s.intern(of[i])
		size += len(of[i])
	}
	if len(of) == 0 || len(of) > maxListLength || size > maxTextLength {
		return of
	}
	return firstStored(s.lists, fmt.Sprintf("%q", of), of, maxTexts)
}

func (s *interner) intern(text string) string {
	if text == "" || len(text) > maxTextLength {
		return text
	}
	return firstStored(s.texts, text, text, maxTexts)
}

// firstStored returns the value stored under key, which is value if it is the first.
func firstStored[K comparable, V any](all map[K]V, key K, value V, most int) V {
	if first, ok := all[key]; ok {
		return first
	}
	if len(all) >= most {
		clear(all)
	}
	all[key] = value
	return value
}
