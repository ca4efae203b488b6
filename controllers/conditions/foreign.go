package conditions

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// Foreign is what our manager does not own in a pod template.
type Foreign struct {
	// Beside are containers and volumes of others, as "WORKLOAD container NAME". They stay, because other managers own
	// them; the user should know of them.
	Beside []string
	// Inside are fields of our containers, as "WORKLOAD container NAME FIELD (manager)". Fields of a manager are
	// removed; fields of nobody, as of a webhook, are not, and take effect in our container.
	Inside []string
}

// mostForeign bounds how many fields a message lists.
const mostForeign = 10

// ForeignPodContent describes the foreign content of a server's pod templates, and what to do; nil if there is none.
func ForeignPodContent(found ...Foreign) *Finding {
	var beside, inside, says []string
	for _, f := range found {
		beside, inside = append(beside, f.Beside...), append(inside, f.Inside...)
	}
	if len(beside) > 0 {
		slices.Sort(beside)
		says = append(says, "other field managers, or webhooks, added to the pods of this server: "+
			strings.Join(beside, ", "))
	}
	if len(inside) > 0 {
		slices.Sort(inside)
		if len(inside) > mostForeign {
			inside = append(inside[:mostForeign], "and more")
		}
		says = append(says, "in Freehold's own containers stands what Freehold does not state: "+strings.Join(inside, ", ")+
			". Freehold takes off what a field manager puts there: stop that manager, and give up its fields with kubectl "+
			"freehold release. "+
			"It does not take off what no manager holds: exclude these objects from the webhook, or remove the field with "+
			"kubectl edit")
	}
	if len(says) == 0 {
		return nil
	}
	return new(True(v1alpha1.ReasonForeignContent, strings.Join(says, "; ")))
}

// ForeignContent finds what manager does not own in a workload's pod template: containers, volumes, and fields of its
// own containers.
func ForeignContent(
	workload string, entries []metav1.ManagedFieldsEntry, manager ownership.Manager, pod corev1.PodSpec,
) Foreign {
	owned, err := ownership.Applied(entries, manager, "")
	if err != nil || owned.Empty() {
		return Foreign{}
	}
	f := finder{entries: entries, owned: owned, leaves: owned.Leaves()}
	for i := range pod.InitContainers {
		f.container(workload+" init container ", "initContainers", pod.InitContainers[i])
	}
	for i := range pod.Containers {
		f.container(workload+" container ", "containers", pod.Containers[i])
	}
	for i := range pod.Volumes {
		if !owned.Has(itemOf("volumes", pod.Volumes[i].Name)) {
			f.found.Beside = append(f.found.Beside, workload+" volume "+pod.Volumes[i].Name)
		}
	}
	return f.found
}

func itemOf(list, name string) fieldpath.Path {
	return fieldpath.MakePathOrDie("spec", "template", "spec", list, fieldpath.KeyByFields("name", name))
}

type finder struct {
	entries       []metav1.ManagedFieldsEntry
	owned, leaves *fieldpath.Set
	found         Foreign
}

func (f *finder) container(called, list string, container corev1.Container) {
	item := itemOf(list, container.Name)
	if !f.owned.Has(item) {
		f.found.Beside = append(f.found.Beside, called+container.Name)
		return
	}
	f.fields(called+container.Name+" ", len(item), item, reflect.ValueOf(container))
}

// filled are the container fields that the API server defaults
// (https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/v1/defaults.go).
var filled = []string{
	"terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "timeoutSeconds", "periodSeconds",
	"successThreshold", "failureThreshold", "scheme", "path", "service",
}

// keysOf are the lists of a container that are merged by key.
var keysOf = map[string][]string{
	"env": {"name"}, "ports": {"containerPort", "protocol"}, "volumeMounts": {"mountPath"},
	"volumeDevices": {"devicePath"},
}

// fields notes the unowned fields below a path. The first from elements of the path lead to the container.
func (f *finder) fields(called string, from int, path fieldpath.Path, of reflect.Value) {
	for _, field := range value.TypeReflectEntryOf(of.Type()).OrderedFields() {
		v := field.GetFrom(of)
		if field.CanOmit(v) || v.IsZero() {
			continue
		}
		here := append(path.Copy(), fieldpath.PathElement{FieldName: &field.JsonName})
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		own := value.TypeReflectEntryOf(v.Type()).CanConvertToUnstructured()
		switch keys := keysOf[field.JsonName]; {
		case f.leaves.Has(here):
		case v.Kind() == reflect.Struct && !own:
			f.fields(called, from, here, v)
		case keys != nil:
			for i := range v.Len() {
				f.item(called, from, here, keys, v.Index(i))
			}
		case v.Kind() == reflect.Map:
			f.keys(called, from, here, v)
		case !slices.Contains(filled, field.JsonName):
			f.note(called, from, here)
		}
	}
}

// item visits an owned item of a list, and notes an unowned one as a whole.
func (f *finder) item(called string, from int, list fieldpath.Path, keys []string, item reflect.Value) {
	var key value.FieldList
	for _, name := range keys {
		field := value.TypeReflectEntryOf(item.Type()).Fields()[name].GetFrom(item)
		v := value.NewValueInterface(field.String())
		if field.CanInt() {
			v = value.NewValueInterface(field.Int())
		}
		key = append(key, value.Field{Name: name, Value: v})
	}
	here := append(list.Copy(), fieldpath.PathElement{Key: &key})
	if !f.owned.Has(here) {
		f.note(called, from, here)
		return
	}
	f.fields(called, from, here, item)
}

// keys visits the keys of a map, such as limits.
func (f *finder) keys(called string, from int, path fieldpath.Path, of reflect.Value) {
	names := of.MapKeys()
	slices.SortFunc(names, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	for _, key := range names {
		name := key.String()
		if here := append(path.Copy(), fieldpath.PathElement{FieldName: &name}); !f.leaves.Has(here) {
			f.note(called, from, here)
		}
	}
}

func (f *finder) note(called string, from int, path fieldpath.Path) {
	var whose []string
	for _, entry := range f.entries {
		set, err := ownership.Fields(entry)
		if err == nil && set.Has(path) {
			whose = append(whose, entry.Manager)
		}
	}
	by := "no field manager, as of a webhook"
	if len(whose) > 0 {
		by = "field manager " + strings.Join(whose, ", ")
	}
	f.found.Inside = append(f.found.Inside,
		fmt.Sprintf("%s%s (%s)", called, strings.TrimPrefix(path[from:].String(), "."), by))
}
