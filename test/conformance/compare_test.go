package conformance

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestEveryDifferenceIsToldByName(t *testing.T) {
	direct := Results{
		"same": {{ID: "a", Status: "SUCCESS"}, {ID: "b", Status: "FAILURE", Error: "one text"}},
		"differs": {
			{ID: "a", Status: "SUCCESS"},
			{ID: "a", Status: "SUCCESS"},
			{ID: "b", Status: "SUCCESS"},
			{ID: "d", Status: "INFO"},
		},
		"lost": {{ID: "a", Status: "FAILURE", Error: "directly"}},
	}
	through := Results{
		"same": {{ID: "a", Status: "SUCCESS"}, {ID: "b", Status: "FAILURE", Error: "another text"}},
		"differs": {
			{ID: "a", Status: "SUCCESS"},
			{ID: "a", Status: "FAILURE", Error: "HTTP 502"},
			{ID: "c", Status: "INFO"},
			{ID: "d", Status: "INFO"},
		},
	}
	want := []Difference{
		{Scenario: "differs", Check: "a#2", Direct: "SUCCESS", Through: "FAILURE", Error: "HTTP 502"},
		{Scenario: "differs", Check: "b", Direct: "SUCCESS", Through: "ABSENT"},
		{Scenario: "differs", Check: "c", Direct: "ABSENT", Through: "INFO"},
		{Scenario: "lost", Check: "a", Direct: "FAILURE", Through: "ABSENT", Error: "directly"},
	}
	if diff := cmp.Diff(want, Compare(direct, through)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"lost", "same"}, direct.Failures()); diff != "" {
		t.Error(diff)
	}
	if n := direct.Checks(); n != 6 {
		t.Errorf("%d checks are counted, not 6", n)
	}
}

func TestResultsAreReadByScenario(t *testing.T) {
	got, err := read(fstest.MapFS{
		"server-server-sse-polling-2026-11-22T16-05-18-296Z/checks.json": {
			Data: []byte(`[{"id":"a","status":"FAILURE","errorMessage":"no","details":{}}]`),
		},
		"server-ping-2026-11-22T16-05-18-296Z/checks.json": {Data: []byte(`[]`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Results{"server-sse-polling": {{ID: "a", Status: "FAILURE", Error: "no"}}, "ping": {}},
		got); diff != "" {
		t.Error(diff)
	}
	for name, files := range map[string]fstest.MapFS{
		"another folder":  {"latest/checks.json": {Data: []byte(`[]`)}},
		"no checks":       {"server-ping-2026-11-22T16-05-18-296Z/other.json": {Data: []byte(`[]`)}},
		"checks of a map": {"server-ping-2026-11-22T16-05-18-296Z/checks.json": {Data: []byte(`{}`)}},
	} {
		if got, err := read(files); err == nil {
			t.Errorf("%s: read as %v", name, got)
		}
	}
}
