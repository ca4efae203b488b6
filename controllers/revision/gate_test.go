package revision

import (
	"strings"
	"testing"
)

func TestGate(t *testing.T) {
	var none Revision
	older, mine := Revision{6, "aa"}, Revision{7, "bb"}
	twin, newer := Revision{7, "cc"}, Revision{8, "aa"}
	for name, tc := range map[string]struct {
		mine   Revision
		exists bool
		live   Revision
		want   Decision
	}{
		"absent":                             {mine, false, none, Create},
		"lost its revision":                  {mine, true, none, Raise},
		"lower":                              {mine, true, older, Raise},
		"lower with my hash":                 {mine, true, Revision{6, "bb"}, Raise},
		"equal":                              {mine, true, mine, Repair},
		"equal number, other hash":           {mine, true, twin, StandBack},
		"equal number, no hash":              {mine, true, Revision{7, ""}, StandBack},
		"higher":                             {mine, true, newer, StandBack},
		"higher with my hash":                {mine, true, Revision{8, "bb"}, StandBack},
		"no revision of mine, absent":        {none, false, none, StandBack},
		"no revision of mine, lost revision": {none, true, none, StandBack},
		"no revision of mine, lower":         {none, true, older, StandBack},
		"no number of mine":                  {Revision{0, "bb"}, false, none, StandBack},
		"negative number of mine":            {Revision{-1, "bb"}, true, Revision{-2, "bb"}, StandBack},
		"no hash of mine":                    {Revision{7, ""}, true, Revision{7, ""}, StandBack},
		"no hash of mine, live is less":      {Revision{7, ""}, true, older, StandBack},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Gate(tc.mine, tc.exists, tc.live); got != tc.want {
				t.Errorf("Gate(%v, %t, %v) = %s, want %s", tc.mine, tc.exists, tc.live, got, tc.want)
			}
		})
	}
}

func TestOf(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        Revision
		err         string
	}{
		"none":          {nil, Revision{}, ""},
		"others only":   {map[string]string{"a": "b"}, Revision{}, ""},
		"a revision":    {Revision{7, "aa"}.Annotations(), Revision{7, "aa"}, ""},
		"largest":       {Revision{MaxGeneration, "aa"}.Annotations(), Revision{MaxGeneration, "aa"}, ""},
		"beyond it":     {Revision{MaxGeneration + 1, "aa"}.Annotations(), Revision{}, `"1000000000000000000"`},
		"no hash":       {map[string]string{AnnotationGeneration: "7"}, Revision{7, ""}, ""},
		"empty hash":    {map[string]string{AnnotationGeneration: "7", AnnotationHash: ""}, Revision{7, ""}, ""},
		"no generation": {map[string]string{AnnotationHash: "aa"}, Revision{}, AnnotationGeneration},
		"empty":         {map[string]string{AnnotationGeneration: "", AnnotationHash: "aa"}, Revision{}, `""`},
		"zero":          {Revision{0, "aa"}.Annotations(), Revision{}, `"0"`},
		"negative":      {Revision{-7, "aa"}.Annotations(), Revision{}, `"-7"`},
		"signed":        {map[string]string{AnnotationGeneration: "+7", AnnotationHash: "aa"}, Revision{}, `"+7"`},
		"leading zero":  {map[string]string{AnnotationGeneration: "07", AnnotationHash: "aa"}, Revision{}, `"07"`},
		"spaced":        {map[string]string{AnnotationGeneration: " 7", AnnotationHash: "aa"}, Revision{}, `" 7"`},
		"not a number":  {map[string]string{AnnotationGeneration: "x", AnnotationHash: "aa"}, Revision{}, `"x"`},
		"beyond 64 bits": {
			map[string]string{AnnotationGeneration: "9223372036854775808", AnnotationHash: "aa"},
			Revision{},
			"9223372036854775808",
		},
		"with a fraction": {map[string]string{AnnotationGeneration: "7.0", AnnotationHash: "aa"}, Revision{}, `"7.0"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Of(tc.annotations)
			if got != tc.want {
				t.Errorf("Of = %v, want %v", got, tc.want)
			}
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want one with %q", err, tc.err)
			}
		})
	}
}

func TestTheRevisionOfAnObjectIsItsHighest(t *testing.T) {
	unreadable := map[string]string{AnnotationGeneration: "x", AnnotationHash: "cc"}
	for name, tc := range map[string]struct {
		own, template map[string]string
		want          Revision
		wrong         bool
	}{
		"both the same": {
			Revision{7, "aa"}.Annotations(), Revision{7, "aa"}.Annotations(),
			Revision{7, "aa"},
			false,
		},
		"the object lost its own": {nil, Revision{7, "aa"}.Annotations(), Revision{7, "aa"}, false},
		"the template lost its":   {Revision{7, "aa"}.Annotations(), nil, Revision{7, "aa"}, false},
		"the object lost its hash": {
			Revision{7, ""}.Annotations(), Revision{7, "aa"}.Annotations(),
			Revision{7, "aa"},
			false,
		},
		"the template is ahead": {
			Revision{6, "aa"}.Annotations(), Revision{7, "bb"}.Annotations(),
			Revision{7, "bb"},
			false,
		},
		"the object is ahead":      {Revision{8, ""}.Annotations(), Revision{7, "bb"}.Annotations(), Revision{8, ""}, false},
		"one cannot be read":       {unreadable, Revision{7, "aa"}.Annotations(), Revision{7, "aa"}, true},
		"the other cannot be read": {Revision{7, "aa"}.Annotations(), unreadable, Revision{7, "aa"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Of(tc.own, tc.template)
			if got != tc.want || (err != nil) != tc.wrong {
				t.Errorf("Of = %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}
