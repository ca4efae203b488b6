package ownership

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestABrokenTableIsRefusedByRow(t *testing.T) {
	kind := Object{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Thing"}}
	row := func(manager Manager, mode Mode, paths ...string) Grant {
		return Grant{Manager: manager, Identity: "i", Object: kind, Mode: mode, Why: "w", Fields: Paths(paths...)}
	}
	named := func(g Grant, name string) Grant { g.Names = []string{name}; return g }
	born := row("a/x", Exclusive, "spec")
	born.Create, born.Object.Subresource = true, "status"
	for name, tc := range map[string]struct {
		grants []Grant
		want   string
	}{
		"two exclusive owners of one field": {
			[]Grant{row("a/x", Exclusive, "spec.a"), row("a/y", Exclusive, "spec")},
			"both own",
		},
		"a shared owner beside an exclusive one": {
			[]Grant{row("a/x", Shared, "spec.a"), row("a/y", Exclusive, "spec.a.b")},
			"both own",
		},
		"a wildcard meets an item": {
			[]Grant{row("a/x", Exclusive, "spec.l[*].a"), row("a/y", Exclusive, "spec.l[k=1]")}, "both own",
		},
		"two rows of one manager on one object": {
			[]Grant{row("a/x", Exclusive, "spec.a"), row("a/x", Exclusive, "spec.b")},
			"join them",
		},
		"a manager name that holds an id": {[]Grant{row("a/pod-7f9c", Exclusive, "spec.a")}, "domain/purpose"},
		"a manager named after a pod": {
			[]Grant{row("pod-7f9c.example.com/x", Exclusive, "spec.a")},
			"domain/purpose",
		},
		"a domain without an end":      {[]Grant{row("a.example-/x", Exclusive, "spec.a")}, "domain/purpose"},
		"a domain of the author's own": {[]Grant{row("page.wiki-2.k8s.example.com/x", Exclusive, "spec.a")}, ""},
		"owner references without an owner": {
			[]Grant{row("a/x", Exclusive, "metadata.ownerReferences[*]")},
			"state an owner",
		},
		"a subresource that creates": {[]Grant{born}, "creates nothing"},
		"a row without fields":       {[]Grant{row("a/x", Exclusive)}, "must be stated"},
		"different objects by name do not clash": {
			[]Grant{named(row("a/x", Exclusive, "spec"), "SERVER-a"), named(row("a/y", Exclusive, "spec"), "SERVER-b")}, "",
		},
		"a name and a pattern clash": {
			[]Grant{named(row("a/x", Exclusive, "spec"), "SERVER-run-*"), named(row("a/y", Exclusive, "spec"), "SERVER-run-1")},
			"both own",
		},
		"a pattern and a name clash": {
			[]Grant{named(row("a/x", Exclusive, "spec"), "SERVER-run-1"), named(row("a/y", Exclusive, "spec"), "SERVER-run-*")},
			"both own",
		},
		"two shared owners do not clash": {[]Grant{row("a/x", Shared, "spec.a"), row("a/y", Shared, "spec.a")}, ""},
		"items with different keys do not clash": {
			[]Grant{row("a/x", Exclusive, "spec.l[k=1]"), row("a/y", Exclusive, "spec.l[k=2]")}, "",
		},
		"a key of another type is another key": {
			[]Grant{row("a/x", Exclusive, "spec.l[k=1]"), row("a/y", Exclusive, `spec.l[k="1"]`)}, "",
		},
		"a name that begins like another's field": {
			[]Grant{row("a/x", Exclusive, "spec.a"), row("a/y", Exclusive, "spec.ab")}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			errs := Contract{Grants: tc.grants}.Check()
			if tc.want == "" && len(errs) > 0 {
				t.Fatalf("refused a sound table: %v", errs)
			}
			if tc.want != "" && (len(errs) == 0 || !strings.Contains(errs[0].Error(), tc.want)) {
				t.Fatalf("want an error with %q, got %v", tc.want, errs)
			}
		})
	}
}

func TestARightNamesWhatItIsTo(t *testing.T) {
	right := Right{Identity: "i", Group: "g", Resource: "things", Verbs: []string{"get"}, Why: "w"}
	for name, change := range map[string]func(*Right){
		"without an identity": func(r *Right) { r.Identity = "" },
		"without a resource":  func(r *Right) { r.Resource = "" },
		"without a verb":      func(r *Right) { r.Verbs = nil },
		"without a reason":    func(r *Right) { r.Why = "" },
		"to every group":      func(r *Right) { r.Group = "*" },
		"to everything":       func(r *Right) { r.Resource = "*" },
		"of every kind":       func(r *Right) { r.Verbs = []string{"get", "*"} },
	} {
		wrong := right
		change(&wrong)
		if errs := (Contract{Rights: []Right{right, wrong}}).Check(); len(errs) != 1 {
			t.Errorf("a right %s: %v", name, errs)
		}
	}
}

// Another author's objects belong to somebody who is not called SERVER.
func TestAWordInCapitalsFitsAnyName(t *testing.T) {
	g := Grant{Names: []string{"PAGE-html-OTHER", "fixed", "PAGE-css-*-*"}}
	for name, want := range map[string]bool{
		"home-html-x": true, "a-b-html-c-d": true, "fixed": true,
		"home-html": false, "home-css-x": false, "fixed-x": false,
		// A name that goes on as the pattern does is of one page: of home, home-css, home-css-1.
		"home-css-1-abc": true, "home-css-css-1-abc": true, "home-css-1-css-2-abc": true, "home-css-1": false,
		"home-css-1-a-b": false,
	} {
		if g.Named(name) != want {
			t.Errorf("%s: %t, want %t", name, !want, want)
		}
	}
}

func TestPathsAreReadAndRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "is empty",
		"spec..a":                      "expected a field name",
		"spec.":                        "",
		"spec[":                        "missing ]",
		"spec[*":                       "missing ]",
		"spec[a]":                      "missing =",
		"spec[a=]":                     "expected a value",
		`spec["a]`:                     "expected a quoted string",
		"spec a":                       "expected . or [",
		"l[=\xff]":                     "is not UTF-8",
		`l[="\xff"]`:                   "expected a quoted string of UTF-8",
		"spec.a":                       "ok",
		`metadata.labels["a.b/c"]`:     "ok",
		`metadata.finalizers[="a/b"]`:  "ok",
		`l[port=80,protocol=TCP].name`: "ok",
	} {
		_, err := ParsePath(text)
		switch {
		case want == "ok" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "ok" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: want an error with %q, got %v", text, want, err)
		}
	}
}
