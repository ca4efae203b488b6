package workload

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// kept is the data of what history keeps of a server.
func kept(t *testing.T, server *v1alpha1.MCPServer, rendered Rendered) []byte {
	t.Helper()
	stored, err := rendered.StoredContent(server, 7)
	if err != nil {
		t.Fatal(err)
	}
	name := server.Name + "-content-" + rendered.Content.Rendering.Backend[:10]
	if *stored.Name != name || !IsContentName(server.Name, name) ||
		*stored.Revision != 7 || stored.Annotations[revision.AnnotationHash] != rendered.Hash ||
		stored.Annotations[revision.AnnotationGeneration] != "7" || stored.Labels[LabelComponent] != ComponentRunner ||
		!ptr.Deref(stored.OwnerReferences[0].Controller, false) {
		t.Errorf("it is %+v", stored)
	}
	return stored.Data.Raw
}

// The same pods come of what history keeps.
func TestStoredContentRendersTheSameBackend(t *testing.T) {
	for _, name := range []string{"full", "stdio"} {
		server := read(t, name)
		rendered := sound(t, server, options)
		data := kept(t, server, rendered)
		run, err := ReadContent(rendered.Content.Server, data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := AsksFor(server, run); err != nil {
			t.Errorf("%s: its own spec: %v", name, err)
		}
		later := server.DeepCopy()
		if later.Spec.Image = "registry.example.com/other:1"; AsksFor(later, run) == nil {
			t.Errorf("%s: another image asks for the same content", name)
		}
		run.Workload = runconfig.Workload{Generation: 7, Hash: "h"}
		again, err := Backend(run, Slot2)
		if err != nil {
			t.Fatal(err)
		}
		first := rendered.Claimed(7)
		first.Workload.Hash = "h"
		want, err := Backend(first, Slot2)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text(t, want), text(t, again)); diff != "" {
			t.Errorf("%s: the backend (-first +again):\n%s", name, diff)
		}
		other := bytes.Replace(data, []byte(server.Spec.Image), []byte("registry.example.com/evil:1"), 1)
		if _, err := ReadContent(rendered.Content.Server, other); err == nil || !strings.Contains(err.Error(), "has hash") {
			t.Errorf("%s: other content under its hash: %v", name, err)
		}
	}
}

func text(t *testing.T, value any) string {
	t.Helper()
	data, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Whatever replaces pods of the backend is among the fields that are written back, and nothing else.
func TestTheFieldsOfContentAreThoseThatReplaceTheBackend(t *testing.T) {
	base := string(kept(t, read(t, "full"), sound(t, read(t, "full"), options)))
	fieldsOf := func(data string) string {
		content, err := runconfig.DecodeContent([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		return string(content.Spec)
	}
	for name, c := range changes {
		field, isField := strings.CutPrefix(name, "spec.")
		if !isField || c.does == never {
			continue
		}
		server, opts := read(t, "full"), options
		c.edit(server, &opts)
		fields := fieldsOf(string(kept(t, server, sound(t, server, opts))))
		field, _, _ = strings.Cut(field, ".")
		listed := slices.Contains(runspec.ContentFields(), field)
		if changed := fields != fieldsOf(base); c.does == both && !changed || changed && !listed {
			t.Errorf("%s, by which pods are %s, changes the fields: %t, and is listed: %t", name, c.does, changed, listed)
		}
	}
	var all map[string]any
	if err := json.Unmarshal([]byte(fieldsOf(base)), &all); err != nil {
		t.Fatal(err)
	}
	for field := range all {
		if !slices.Contains(runspec.ContentFields(), field) {
			t.Errorf("%s is kept, and not listed", field)
		}
	}
}
