package workload

import (
	"strings"
	"testing"
)

func TestGate(t *testing.T) {
	var none Mark
	older, mine := Mark{6, "aa"}, Mark{7, "bb"}
	twin, newer := Mark{7, "cc"}, Mark{8, "aa"}
	for name, tc := range map[string]struct {
		mine   Mark
		exists bool
		live   Mark
		want   Verdict
	}{
		"absent":                        {mine, false, none, Birth},
		"lost its mark":                 {mine, true, none, Raise},
		"lower":                         {mine, true, older, Raise},
		"lower with my hash":            {mine, true, Mark{6, "bb"}, Raise},
		"equal":                         {mine, true, mine, Repair},
		"equal number, other hash":      {mine, true, twin, StandBack},
		"equal number, no hash":         {mine, true, Mark{7, ""}, StandBack},
		"higher":                        {mine, true, newer, StandBack},
		"higher with my hash":           {mine, true, Mark{8, "bb"}, StandBack},
		"no mark of mine, absent":       {none, false, none, StandBack},
		"no mark of mine, lost mark":    {none, true, none, StandBack},
		"no mark of mine, lower":        {none, true, older, StandBack},
		"no number of mine":             {Mark{0, "bb"}, false, none, StandBack},
		"negative number of mine":       {Mark{-1, "bb"}, true, Mark{-2, "bb"}, StandBack},
		"no hash of mine":               {Mark{7, ""}, true, Mark{7, ""}, StandBack},
		"no hash of mine, live is less": {Mark{7, ""}, true, older, StandBack},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Gate(tc.mine, tc.exists, tc.live); got != tc.want {
				t.Errorf("Gate(%v, %t, %v) = %s, want %s", tc.mine, tc.exists, tc.live, got, tc.want)
			}
		})
	}
}

func TestMarkOf(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        Mark
		err         string
	}{
		"none":            {nil, Mark{}, ""},
		"others only":     {map[string]string{"a": "b"}, Mark{}, ""},
		"a mark":          {Mark{7, "aa"}.annotations(), Mark{7, "aa"}, ""},
		"largest":         {Mark{MaxGeneration, "aa"}.annotations(), Mark{MaxGeneration, "aa"}, ""},
		"beyond it":       {Mark{MaxGeneration + 1, "aa"}.annotations(), Mark{}, `"1000000000000000000"`},
		"no hash":         {map[string]string{AnnotationGeneration: "7"}, Mark{7, ""}, ""},
		"empty hash":      {map[string]string{AnnotationGeneration: "7", AnnotationHash: ""}, Mark{7, ""}, ""},
		"no generation":   {map[string]string{AnnotationHash: "aa"}, Mark{}, AnnotationGeneration},
		"empty":           {map[string]string{AnnotationGeneration: "", AnnotationHash: "aa"}, Mark{}, `""`},
		"zero":            {Mark{0, "aa"}.annotations(), Mark{}, `"0"`},
		"negative":        {Mark{-7, "aa"}.annotations(), Mark{}, `"-7"`},
		"signed":          {map[string]string{AnnotationGeneration: "+7", AnnotationHash: "aa"}, Mark{}, `"+7"`},
		"leading zero":    {map[string]string{AnnotationGeneration: "07", AnnotationHash: "aa"}, Mark{}, `"07"`},
		"spaced":          {map[string]string{AnnotationGeneration: " 7", AnnotationHash: "aa"}, Mark{}, `" 7"`},
		"not a number":    {map[string]string{AnnotationGeneration: "x", AnnotationHash: "aa"}, Mark{}, `"x"`},
		"beyond 64 bits":  {map[string]string{AnnotationGeneration: "9223372036854775808", AnnotationHash: "aa"}, Mark{}, "9223372036854775808"},
		"with a fraction": {map[string]string{AnnotationGeneration: "7.0", AnnotationHash: "aa"}, Mark{}, `"7.0"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := MarkOf(tc.annotations)
			if got != tc.want {
				t.Errorf("MarkOf = %v, want %v", got, tc.want)
			}
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want one with %q", err, tc.err)
			}
		})
	}
}

func TestTheMarkOfAnObjectIsItsHighest(t *testing.T) {
	unreadable := map[string]string{AnnotationGeneration: "x", AnnotationHash: "cc"}
	for name, tc := range map[string]struct {
		own, template map[string]string
		want          Mark
		wrong         bool
	}{
		"both the same":            {Mark{7, "aa"}.annotations(), Mark{7, "aa"}.annotations(), Mark{7, "aa"}, false},
		"the object lost its own":  {nil, Mark{7, "aa"}.annotations(), Mark{7, "aa"}, false},
		"the template lost its":    {Mark{7, "aa"}.annotations(), nil, Mark{7, "aa"}, false},
		"the object lost its hash": {Mark{7, ""}.annotations(), Mark{7, "aa"}.annotations(), Mark{7, "aa"}, false},
		"the template is ahead":    {Mark{6, "aa"}.annotations(), Mark{7, "bb"}.annotations(), Mark{7, "bb"}, false},
		"the object is ahead":      {Mark{8, ""}.annotations(), Mark{7, "bb"}.annotations(), Mark{8, ""}, false},
		"one cannot be read":       {unreadable, Mark{7, "aa"}.annotations(), Mark{7, "aa"}, true},
		"the other cannot be read": {Mark{7, "aa"}.annotations(), unreadable, Mark{7, "aa"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := MarkOf(tc.own, tc.template)
			if got != tc.want || (err != nil) != tc.wrong {
				t.Errorf("MarkOf = %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}
