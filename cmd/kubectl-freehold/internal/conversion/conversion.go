// Package conversion turns objects of other operators that run MCP servers into objects of Freehold, and says what it
// could not turn.
//
// run.go converts objects together, conversion.go works through the rows of a kind, check.go judges what was made as
// the API server and Freehold do, fields.go reads and writes fields by their path, takers.go has what a row does with
// a value, each other file has the rows of one operator, after its published schemas, and table.go prints all rows as
// a page. No field gets lost: what no row takes becomes a remark.
package conversion

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// row is what becomes of one field of a kind.
type row struct {
	// from is the field's path, with every field below it that no earlier row took. A list or map is taken as a whole.
	from string
	// to is the field of ours with the same meaning, or empty.
	to string
	// note says what differs, or what to write where no field of ours is equal.
	note string
	// absent is the default of the other operator's schema, where the field is left out and ours has another default.
	absent any
	// granted is the one value that needs no field of ours.
	granted any
	// guards says that the field keeps callers out. If it is not taken over, the
	// server is suspended, so that nobody calls what was guarded before.
	guards bool
	// secret says that a remark must not repeat the value.
	secret bool
	// take sets fields of ours. Without it the value is set as it is.
	take taker
}

// taker sets fields of ours from a value, and returns what is left to say, or nothing. value is not nil.
type taker func(c *conversion, to string, value any) (remark string)

type kind struct {
	product  string
	group    string
	versions []string
	kind     string
	// to is the kind of ours, or empty.
	to   string
	note string
	rows []row
	// when reports whether a row is for an object, where what it becomes hangs on its fields. Nil is always.
	when func(*unstructured.Unstructured) bool
	// service is by which clients call; nil where none do.
	service func(*unstructured.Unstructured) service
	// adds is what the other operator does without being told.
	adds []addition
}

// addition is what another operator does for each object of a kind by itself: no field says it, and it is part of what
// the object means. What is stated wins.
type addition struct {
	// does says it, for the page.
	does string
	// add writes it, or says it in a remark.
	add func(*conversion)
}

func readable() []kind {
	return slices.Concat(toolhive(), kmcp(), kagent(), litellm(), lifecycle())
}

// Result is one object of ours.
type Result struct {
	// Object has apiVersion, kind, metadata and spec; it is nil where no kind of ours is equal.
	Object map[string]any
	// From says what the object was made of.
	From string
	// Remarks are sentences about what was not taken over, or means something else
	// now. Each begins with the path of a field of the source.
	Remarks []string
	// Open says that a person has to complete it.
	Open bool
}

type conversion struct {
	kind   kind
	source *unstructured.Unstructured
	// rest is the source without what rows took.
	rest    map[string]any
	main    map[string]any
	more    []map[string]any
	remarks []string
	// lost are fields that kept callers out and have no equal, unknown those that may have.
	lost, unknown []string
	// clashing are objects that others of the run are made into, too.
	clashing []string
	// withheld is why a configuration may not be accepted as it is, empty if it may.
	withheld string
	groups   groups
	// from says what it was made of, where that is no object.
	from string
	// secrets are what is to be written into the keys of its Secret.
	secrets []string
	// ofImage are variables that its image has.
	ofImage map[string]bool
	// runner says that the image is one that import chose.
	runner bool
	// open says that only a person can complete it.
	open bool
}

// begin converts one object by itself. The error is for a kind that it does not know.
func begin(u *unstructured.Unstructured) (*conversion, error) {
	k, err := kindOf(u)
	if err != nil {
		return nil, err
	}
	c := &conversion{kind: k, source: u, rest: u.DeepCopy().Object, main: object(u, k.to)}
	c.metadata()
	c.fields("spec")
	for _, a := range k.adds {
		a.add(c)
	}
	return c, nil
}

// fields works through the rows. What no row took may have kept callers out, for all that is known.
func (c *conversion) fields(path string) {
	for _, r := range c.kind.rows {
		c.apply(c.kind, r)
	}
	rest, _ := get(c.rest, path)
	for _, leaf := range leaves(path, rest) {
		c.remark(leaf.path, leaf.value, noEqual(c.kind))
		if !c.above(leaf) {
			c.unknown = append(c.unknown, leaf.path)
		}
	}
}

// above reports whether an empty value could only hold fields that rows know.
func (c *conversion) above(empty leaf) bool {
	return slices.ContainsFunc(c.kind.rows, func(r row) bool { return strings.HasPrefix(r.from, empty.path+".") })
}

// end is what is printed of an object, once those of the run that it has to do with are known.
func (c *conversion) end(r run, stage Stage) []Result {
	c.holdBack()
	from := cmp.Or(c.from, fmt.Sprintf("%s %s, %s of %s", c.source.GetKind(), name(c.source), c.source.GetAPIVersion(),
		c.kind.product))
	if c.kind.to == "" {
		why := c.kind.note
		if c.from == "" {
			why = "kind " + c.kind.kind + " has no equal: " + why
		}
		return []Result{{From: from, Remarks: append([]string{why}, c.remarks...), Open: true}}
	}
	results := []Result{}
	for _, extra := range c.more {
		result := Result{Object: extra, From: from}
		if extra["kind"] == "Secret" {
			result.Open = true
			const first = "apply it once it has its values: an empty one takes the place of one that is there"
			result.Remarks = append([]string{first}, c.secrets...)
		}
		results = append(results, result)
	}
	results = append(results, Result{Object: c.main, From: from, Remarks: c.remarks, Open: c.open || c.why() != ""})
	if stage != "" && c.suspendable() {
		results = adopt(results, c.kind.service, c.source, stage)
	}
	for i := range results {
		problems := c.problems(results[i].Object, r)
		results[i].Remarks = append(results[i].Remarks, problems...)
		results[i].Open = results[i].Open || len(problems) > 0
	}
	return results
}

func name(u *unstructured.Unstructured) string {
	if u.GetNamespace() == "" {
		return u.GetName()
	}
	return u.GetNamespace() + "/" + u.GetName()
}

func kindOf(u *unstructured.Unstructured) (kind, error) {
	gvk := u.GroupVersionKind()
	for _, k := range readable() {
		if k.group == gvk.Group && k.kind == gvk.Kind && slices.Contains(k.versions, gvk.Version) &&
			(k.when == nil || k.when(u)) {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("%s in %s cannot be imported", gvk.Kind, gvk.GroupVersion())
}

// Known are the kinds that can be read, for a sentence.
func Known() string {
	var known []string
	for _, k := range readable() {
		known = append(known, fmt.Sprintf("%s in %s/{%s}", k.kind, k.group, strings.Join(k.versions, ",")))
	}
	return strings.Join(slices.Compact(known), ", ")
}

func noEqual(k kind) string {
	if k.to == "" {
		return ""
	}
	return k.to + " has no such field"
}

func object(u *unstructured.Unstructured, kind string) map[string]any {
	metadata := map[string]any{"name": u.GetName()}
	if namespace := u.GetNamespace(); namespace != "" {
		metadata["namespace"] = namespace
	}
	return map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": kind, "metadata": metadata, "spec": map[string]any{},
	}
}

// metadata keeps labels and annotations, but not those by which tools know their objects. What the API server writes
// is left out, since it says nothing about the server.
func (c *conversion) metadata() {
	for _, path := range []string{"metadata.labels", "metadata.annotations"} {
		value, _ := get(c.rest, path)
		values, _ := value.(map[string]any)
		for _, key := range sorted(values) {
			if ofTool(key) {
				delete(values, key)
				c.say(path+"["+key+"]", "", "a tool knows its objects by it, and could prune or overwrite this one; left out", true)
			}
		}
		if len(values) > 0 {
			set(c.main, path, values)
		}
	}
	for _, path := range []string{"metadata.finalizers", "metadata.ownerReferences"} {
		if value, found := get(c.rest, path); found {
			c.remark(path, value, "the other operator's; left out")
		}
	}
}

// toolDomains have, with those below them, the labels and annotations by which tools that apply and prune find their
// objects: Helm, Argo CD, Flux, kubectl, kustomize, kpt, Rancher, kapp and Tanka.
var toolDomains = []string{
	"helm.sh", "argoproj.io", "fluxcd.io", "kubectl.kubernetes.io", "applyset.kubernetes.io",
	"config.kubernetes.io", "config.k8s.io", "cli-utils.sigs.k8s.io", "cattle.io", "kapp.k14s.io", "tanka.dev",
}

func ofTool(key string) bool {
	domain, name, _ := strings.Cut(key, "/")
	if domain == "app.kubernetes.io" {
		return name == "managed-by" || name == "instance" // Helm's, and Argo CD's
	}
	return name != "" && slices.ContainsFunc(toolDomains,
		func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
}

func (c *conversion) apply(k kind, r row) {
	value, found := cut(c.rest, r.from)
	if !found && r.absent != nil {
		value, found = r.absent, true
	}
	if !found || value == nil || r.guards && value == "" ||
		r.granted != nil && fmt.Sprint(value) == fmt.Sprint(r.granted) {
		return
	}
	take := r.take
	switch {
	case k.to == "" || r.to == "" && take == nil:
		take = func(*conversion, string, any) string { return r.note }
	case take == nil:
		take = asItIs
	}
	before := compact(redacted(r.from, value)) // a taker may take it apart
	if remark := take(c, r.to, value); remark != "" {
		c.say(r.from, before, remark, r.secret)
		if r.guards {
			c.lose(r.from)
		}
	} else if r.note != "" {
		c.say(r.from, before, r.note, r.secret)
	}
}

func (c *conversion) remark(path string, value any, text string) {
	c.say(path, compact(redacted(path, value)), text, false)
}

func (c *conversion) say(path, value, text string, secret bool) {
	said := path
	if !secret {
		said += ": " + withoutSecrets(value)
	}
	if text != "" {
		said += " -- " + text
	}
	c.remarks = append(c.remarks, said)
}

func compact(value any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprintf("%q", fmt.Sprint(value))
	}
	return strings.TrimSuffix(text.String(), "\n")
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
