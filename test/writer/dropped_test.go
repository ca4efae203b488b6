package writer

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// A field of a pod template that an intent no longer states is gone: the object is as one that never had it, and one
// that gets it is as one that was born with it. All fields are found in the Go types, so that an alias or a default of
// the API server that stays behind is found in each field that Kubernetes adds.
func TestWhatATemplateDropsIsGone(t *testing.T) {
	t.Parallel()
	d := under(t, granting(ownership.Grant{
		Manager: one, Mode: ownership.Exclusive, Create: true, Fields: ownership.Paths("template"),
		Object: ownership.Object{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "PodTemplate"}},
	}))
	w := &fields{t: t, seen: map[string]bool{}}
	w.below(reflect.TypeFor[corev1.PodTemplateSpec](), nil,
		document(t, `{spec: {containers: [{name: server, image: "echo:1"}]}}`))
	for at := range samples {
		if !w.seen[at] {
			t.Errorf("there is no field %s any more: remove its sample", at)
		}
	}
	work := make(chan fieldCase)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for c := range work {
				c.try(d)
			}
		})
	}
	for _, c := range w.cases {
		work <- c
	}
	close(work)
	group.Wait()
	t.Logf("%d fields", len(w.cases))
}

// fieldCase is a field of a Go type, and a template with and without it.
type fieldCase struct {
	at            string
	with, without map[string]any
}

func (c fieldCase) try(d *fixture) {
	name := strings.ToLower(strings.NewReplacer(".", "-", "_", "-").Replace(c.at))
	born, err := c.put(d, name, c.with)
	if err != nil && strings.Contains(err.Error(), "field not declared in schema") {
		return // of a later version than the API server is
	}
	if err != nil {
		d.Errorf("%s cannot be set: %v; correct its sample", c.at, err)
		return
	}
	before, err := c.put(d, name+"-later", c.without)
	if err != nil {
		d.Errorf("%s cannot be unset: %v; correct its sample", c.at, err)
		return
	}
	if cmp.Equal(born, before) {
		d.Errorf("%s changes nothing: correct its sample, or say why", c.at)
	}
	if now, err := c.put(d, name+"-later", c.with); err != nil || !cmp.Equal(born, now) {
		d.Errorf("%s set later: %v (-born with it +now):\n%s", c.at, err, cmp.Diff(born, now))
	}
	if now, err := c.put(d, name, c.without); err != nil || !cmp.Equal(before, now) {
		d.Errorf("%s dropped: %v (-born without it +now):\n%s", c.at, err, cmp.Diff(before, now))
	}
}

// put writes as Freehold's builders do, and returns what the API server made of it.
func (c fieldCase) put(d *fixture, name string, template map[string]any) (map[string]any, error) {
	typed := &corev1.PodTemplateSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, typed); err != nil {
		return nil, err
	}
	canonical, err := podtemplate.Canonical(typed)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(canonical)
	if err != nil {
		return nil, err
	}
	ac := &corev1ac.PodTemplateSpecApplyConfiguration{}
	if err := json.Unmarshal(data, ac); err != nil {
		return nil, err
	}
	live := &corev1.PodTemplate{}
	live.SetName(name)
	live.SetNamespace(d.Namespace)
	if d.Client.Get(d.Ctx, client.ObjectKeyFromObject(live), live) != nil {
		live = nil
	}
	if _, err := d.applier.As(one).
		Apply(d.Ctx, live, corev1ac.PodTemplate(name, d.Namespace).WithTemplate(podtemplate.Stated(ac))); err != nil {
		return nil, err
	}
	live = &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: d.Namespace}}
	if err := d.Client.Get(d.Ctx, client.ObjectKeyFromObject(live), live); err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(&live.Template)
}

// fields walks the Go types, each once.
type fields struct {
	t     *testing.T
	seen  map[string]bool
	cases []fieldCase
}

// below visits the fields of a struct that stands at path in template. An item of a list is the first one.
func (w *fields) below(of reflect.Type, path []string, template map[string]any) {
	// First what stands already: each type is tried once, and where it has all its fields.
	for _, first := range []bool{true, false} {
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" { // inlined
				w.below(field.Type, path, template)
				continue
			}
			if _, stands := object(template, path)[name]; stands == first {
				w.field(of, field.Type, name, path, template)
			}
		}
	}
}

func (w *fields) field(of, is reflect.Type, name string, path []string, template map[string]any) {
	at := of.Name() + "." + name
	if w.seen[at] {
		return
	}
	w.seen[at] = true
	sample := samples[at]
	if sample.never != "" {
		return
	}
	for is.Kind() == reflect.Pointer {
		is = is.Elem()
	}
	value := sample.value(w.t, at, is)
	if sample.pod != "" {
		template = clone(template)
		maps.Copy(object(template, []string{"spec"}), document(w.t, sample.pod))
	}
	without, with := clone(template), clone(template)
	item, there := object(with, path), object(without, path)
	if sample.with != "" {
		maps.Copy(item, document(w.t, sample.with))
	}
	for _, other := range unions[of.Name()] {
		if other != name {
			delete(item, other)
		}
	}
	for _, other := range sample.alone {
		delete(item, other)
	}
	if _, stands := there[name]; !stands || sample.text != "" {
		item[name] = value
		w.cases = append(w.cases, fieldCase{at: at, with: with, without: without})
	}
	if sample.flat {
		return
	}
	switch elem := is; {
	case elem.Kind() == reflect.Slice && elem.Elem().Kind() == reflect.Struct:
		w.below(elem.Elem(), append(slices.Clone(path), name, "0"), with)
	case elem.Kind() == reflect.Struct && !reflect.PointerTo(elem).Implements(reflect.TypeFor[json.Marshaler]()):
		w.below(elem, append(slices.Clone(path), name), with)
	}
}

func document(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return clone(out)
}

// clone copies, with whole numbers as server-side apply has them.
func clone(of map[string]any) map[string]any {
	return whole(of).(map[string]any)
}

func whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			out[key] = whole(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = whole(v[i])
		}
		return out
	case float64:
		return int64(v)
	}
	return v
}

// object is what stands at a path.
func object(in any, path []string) map[string]any {
	for _, step := range path {
		switch at := in.(type) {
		case []any:
			in = at[0]
		case map[string]any:
			in = at[step]
		}
	}
	out, ok := in.(map[string]any)
	if !ok {
		panic(fmt.Sprintf("nothing at %s", strings.Join(path, ".")))
	}
	return out
}
