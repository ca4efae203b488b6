package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChangesAreNamedByTheirFields(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want string }{
		"equal": {`{"a":1,"b":{"c":[1]}}`, `{"b":{"c":[1]},"a":1}`, ""},
		"values": {
			`{"a":1,"b":{"c":"x","d":true}}`, `{"a":2,"b":{"c":"y","d":true}}`,
			"spec.a: 1 -> 2\nspec.b.c: \"x\" -> \"y\"\n",
		},
		"a field more": {`{"a":1}`, `{"a":1,"b":{"c":"<x>"}}`, "spec.b: nothing -> {\"c\":\"<x>\"}\n"},
		"a field less": {`{"a":1,"b":[1,2]}`, `{"a":1}`, "spec.b: [1,2] -> nothing\n"},
		"items by name": {
			`{"env":[{"name":"A","value":"1"},{"name":"B"}]}`, `{"env":[{"name":"A","value":"2"}]}`,
			"spec.env[name=A].value: \"1\" -> \"2\"\nspec.env[name=B]: {\"name\":\"B\"} -> nothing\n",
		},
		"items by mount": {
			`{"m":[{"name":"v","mountPath":"/a"}]}`, `{"m":[{"name":"v","mountPath":"/b"}]}`,
			"spec.m[name=v].mountPath: \"/a\" -> \"/b\"\n",
		},
		"names twice": {
			`{"m":[{"name":"v","p":1},{"name":"v","p":2}]}`, `{"m":[{"name":"v","p":1}]}`,
			"spec.m: [{\"name\":\"v\",\"p\":1},{\"name\":\"v\",\"p\":2}] -> [{\"name\":\"v\",\"p\":1}]\n",
		},
		"another order": {
			`{"m":[{"name":"a"},{"name":"b"}]}`, `{"m":[{"name":"b"},{"name":"a"}]}`,
			"spec.m: [{\"name\":\"a\"},{\"name\":\"b\"}] -> [{\"name\":\"b\"},{\"name\":\"a\"}]\n",
		},
		"a list":            {`{"args":["a"]}`, `{"args":["b"]}`, "spec.args: [\"a\"] -> [\"b\"]\n"},
		"control sequences": {`{"a":"\u001b[2J"}`, `{"a":"x"}`, "spec.a: \"\\u001b[2J\" -> \"x\"\n"},
		"long values": {
			`{"b":1,"a":"` + strings.Repeat("x", 70) + `"}`, `{"b":1}`,
			"spec.a: \"" + strings.Repeat("x", 59) + "… -> nothing\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var from, to any
			for text, into := range map[string]*any{tc.from: &from, tc.to: &to} {
				if err := json.Unmarshal([]byte(text), into); err != nil {
					t.Fatal(err)
				}
			}
			got := ""
			for _, c := range changesOf("spec", from, to) {
				got += fmt.Sprintln(c)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the changes (-want +got):\n%s", diff)
			}
		})
	}
}
