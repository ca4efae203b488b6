package runconfig

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadRouting(t *testing.T) {
	at := time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)
	hash := strings.Repeat("f", 64)
	told := Routing{
		ServerUID: strings.Repeat("u", 36), Since: at, Active: &RoutedContent{2, hash, 1 << 62},
		Contents: []ContentUse{
			{Slot: 2, Hash: hash, InFlight: 1 << 40},
			{Slot: 1, Hash: strings.Repeat("e", 64), InFlight: 1, SessionSeen: at.Add(time.Hour)},
			{Slot: 1, Hash: strings.Repeat("d", 64), InFlight: 1, SessionSeen: at.Add(time.Hour)},
		},
	}
	text, err := json.Marshal(told)
	if err != nil || len(text) > MaxRouting/2 {
		t.Fatalf("%d bytes: %v", len(text), err)
	}
	got, err := ReadRouting(strings.NewReader(string(text)))
	if diff := cmp.Diff(told, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	if use := got.Of(told.Contents[1].Hash); use == nil || use.InFlight != 1 || got.Of("other") != nil {
		t.Errorf("of content: %+v, %+v", use, got.Of("other"))
	}
	for name, wrong := range map[string]string{
		"of another program":   `{"active":{"slot":1,"hash":"x"},"sessions":{}}`,
		"no JSON":              "ok",
		"of a wrong type":      `{"serverUID":1}`,
		"of no time":           `{"serverUID":"u","contents":[]}`,
		"longer than is read":  string(text) + strings.Repeat(" ", MaxRouting),
		"with more after that": string(text) + "{}",
	} {
		if got, err := ReadRouting(strings.NewReader(wrong)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
