package podtemplate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// overlay is a user's podTemplate: a part of a PodTemplateSpec that is merged into ours by the rules of server-side
// apply. It adds, and never changes what we state. overlay_check.go has what is refused, and why that precedes the
// merge.
type overlay struct {
	// field of the MCPServer, or value of the chart, that has the overlay.
	field string
	raw   []byte
	// instead are the fields of the MCPServer, or values of the chart, that replace a field of the pod template.
	instead map[string]string
	// holdsToken: the pod has the runner's token; see token.go.
	holdsToken bool
	// noToken are fields that would bring an identity into the pod, and the message for each.
	noToken map[string]string
	// bridged: the pod has a bridge; see bridge.go.
	bridged bool
	// yields are our fields that the overlay may replace.
	yields *fieldpath.Set
}

func backendOverlay(run runconfig.Backend) overlay {
	o := overlay{
		field:   "spec.podTemplate",
		raw:     run.PodTemplate,
		yields:  restricted,
		bridged: run.Bridge != nil,
		instead: map[string]string{
			"image":                        "spec.image",
			"command":                      "spec.command",
			"args":                         "spec.args",
			"env":                          "spec.env",
			"envFrom":                      "spec.envFrom",
			"ports":                        "spec.port",
			"resources":                    "spec.resources",
			"volumes":                      "spec.volumes",
			"volumeMounts":                 "spec.volumeMounts",
			"imagePullPolicy":              "spec.imagePullPolicy",
			"imagePullSecrets":             "spec.imagePullSecrets",
			"serviceAccountName":           "spec.serviceAccountName",
			"automountServiceAccountToken": "spec.serviceAccountName",
		},
	}
	if run.ServiceAccountName == "" {
		o.noToken = noToken
	}
	return o
}

func proxyOverlay(spec *v1alpha1.ProxySpec) overlay {
	return overlay{
		field:      "spec.proxy.podTemplate",
		raw:        runspec.Raw(spec.PodTemplate),
		instead:    map[string]string{"resources": "spec.proxy.resources"},
		holdsToken: true,
		noToken:    proxyToken,
	}
}

// merge merges the overlay into ours. If there are problems the result is ours alone.
func (o overlay) merge(
	ours *corev1ac.PodTemplateSpecApplyConfiguration,
) (*corev1ac.PodTemplateSpecApplyConfiguration, []Problem) {
	if len(bytes.TrimSpace(o.raw)) == 0 {
		return ours, nil
	}
	template, problems := o.decode()
	if template == nil {
		return ours, problems
	}
	walk("", reflect.ValueOf(template), normalise)
	oursFirst(template, ours)
	if o.holdsToken {
		confine(template)
	}
	problems = append(problems, o.unsuitable(template)...)
	problems = append(problems, o.portClashes(ours, template)...)
	merged, clashes := o.join(ours, template, len(problems) > 0)
	if problems = append(problems, clashes...); len(problems) > 0 {
		return ours, problems
	}
	return merged, nil
}

// embedding is the name of an embedded Go type, which encoding/json adds to the path of a field.
var embedding = regexp.MustCompile(`\b[A-Z]\w*\.`)

// decode reads the overlay strictly. The template is nil if it is unreadable.
func (o overlay) decode() (*corev1.PodTemplateSpec, []Problem) {
	template := &corev1.PodTemplateSpec{}
	strict, err := kjson.UnmarshalStrict(o.raw, template, kjson.DisallowUnknownFields, kjson.DisallowDuplicateFields)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return nil, []Problem{{join(o.field, embedding.ReplaceAllString(wrong.Field, "")), misfit(wrong)}}
	}
	if err != nil && strings.Contains(err.Error(), "quantities must match") {
		return nil, []Problem{{o.field, "holds a quantity that is none: write cpu as 500m or 2, memory as 128Mi or 1Gi"}}
	}
	if err != nil {
		return nil, []Problem{{o.field, "cannot be read as a PodTemplateSpec: " + err.Error()}}
	}
	var problems []Problem
	for _, err := range strict {
		problem := Problem{o.field, err.Error()}
		var at kjson.FieldError
		if errors.As(err, &at) {
			problem.Field = join(o.field, at.FieldPath())
		}
		switch text := err.Error(); {
		case strings.HasPrefix(text, "unknown field"):
			problem.Message = "a pod template has no such field: correct or remove it"
		case strings.HasPrefix(text, "duplicate field"):
			problem.Message = "given twice: remove one"
		}
		problems = append(problems, problem)
	}
	return template, problems
}

// misfit explains a value of the wrong type to whoever wrote the YAML.
func misfit(wrong *json.UnmarshalTypeError) string {
	is, _, _ := strings.Cut(wrong.Value, " ")
	words := map[string]string{
		"array": "a list", "object": "a map", "string": "a text", "number": "a number",
		"bool": "true or false",
	}
	wanted := "a number: write it without quotes"
	switch wrong.Type.Kind() { //nolint:exhaustive // the rest are numbers
	case reflect.String:
		wanted = "a text: write it in quotes"
	case reflect.Bool:
		wanted = "true or false: write it without quotes"
	case reflect.Slice:
		wanted = "a list: begin each item with -"
	case reflect.Struct, reflect.Map:
		wanted = "a map: write its fields below it"
	}
	return "is " + cmp.Or(words[is], wrong.Value) + " where a pod template has " + wanted
}

// join finds clashes, and merges. broken means that there are problems already, which explain whatever the merge
// cannot read.
func (o overlay) join(
	ours *corev1ac.PodTemplateSpecApplyConfiguration, theirs *corev1.PodTemplateSpec,
	broken bool,
) (*corev1ac.PodTemplateSpecApplyConfiguration, []Problem) {
	whole := func(err error) []Problem { return []Problem{{o.field, err.Error()}} }
	ourFields, err := toFields(ours)
	if err != nil {
		return nil, whole(err)
	}
	theirFields, err := toFields(theirs)
	if err != nil {
		return nil, whole(err)
	}
	ourValue, err := toTyped(ourFields)
	if err != nil {
		return nil, whole(err)
	}
	theirValue, err := toTyped(theirFields)
	if err != nil && broken {
		return nil, nil
	}
	if err != nil {
		text := strings.TrimPrefix(err.Error(), ".template.")
		return nil, []Problem{{o.field, text + ": keep one of them"}}
	}
	ourValue, err = o.yield(ourValue, theirValue)
	if err != nil {
		return nil, whole(err)
	}
	if problems := o.clashes(ourValue, theirValue); len(problems) > 0 {
		return nil, problems
	}
	merged, err := mergeTyped(ourValue, theirValue)
	if err != nil {
		return nil, whole(err)
	}
	return merged, nil
}

// oursFirst puts our containers first, as the merge does not: kubectl logs defaults to the first container.
func oursFirst(template *corev1.PodTemplateSpec, ours *corev1ac.PodTemplateSpecApplyConfiguration) {
	slices.SortStableFunc(template.Spec.Containers, func(a, b corev1.Container) int {
		return cmp.Compare(position(ours, a.Name), position(ours, b.Name))
	})
}

func position(ours *corev1ac.PodTemplateSpecApplyConfiguration, name string) int {
	for i, container := range ours.Spec.Containers {
		if *container.Name == name {
			return i
		}
	}
	return len(ours.Spec.Containers)
}

// mergeTyped merges twice: the first merge determines the order, ours first, so that the overlay's variables may
// refer to ours; the second gives our values priority.
func mergeTyped(ours, theirs *typed.TypedValue) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	ordered, err := ours.Merge(theirs)
	if err != nil {
		return nil, err
	}
	merged, err := ordered.Merge(ours)
	if err != nil {
		return nil, err
	}
	root, _ := merged.AsValue().Unstructured().(map[string]any)
	fields, _ := root["template"].(map[string]any)
	return fromFields[corev1ac.PodTemplateSpecApplyConfiguration](fields)
}

// converter uses the API server's own schema. It is made once, because reading that schema takes a while.
var converter = sync.OnceValue(func() managedfields.TypeConverter {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		panic("registering the core types: " + err.Error()) // cannot happen: the scheme is empty
	}
	return applyconfigurations.NewTypeConverter(scheme)
})

// toTyped wraps a pod template in a PodTemplate, the one kind that is nothing else.
func toTyped(template map[string]any) (*typed.TypedValue, error) {
	return converter().ObjectToTyped(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "PodTemplate",
		"template":   template,
	}})
}
