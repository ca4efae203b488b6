package main

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/test/conformance"
	"github.com/freehold-dev/freehold/test/golden"
)

// Every server is one that is installed at one version, or built from a module.
func TestServersArePinned(t *testing.T) {
	versions := pinned(t)
	exact, names := regexp.MustCompile(`^\d+\.\d+\.\d+$`), map[string]bool{}
	for _, s := range servers {
		if version := versions[s.from]; s.program != "" && !exact.MatchString(version) {
			t.Errorf("%s: package.json has version %q", s.called(), version)
		}
		if names[s.called()] || s.proof == "" || len(s.plan.Tools) < 2 {
			t.Errorf("%s: its name is another's, or it has no proof or no calls", s.called())
		}
		names[s.called()] = true
	}
	froms := map[string]bool{}
	for _, s := range servers {
		froms[s.from] = true
	}
	if len(froms) < 20 {
		t.Errorf("%d servers", len(froms))
	}
	lock, err := os.ReadFile("testdata/npm/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(lock), `"resolved"`) {
		t.Error("the lock file names hosts: make it with --omit-lockfile-registry-resolved")
	}
}

func TestKnownDifferencesHaveAReason(t *testing.T) {
	for _, k := range differences {
		if len(k.why) < 20 || !slices.ContainsFunc(servers, func(s server) bool { return k.server.MatchString(s.called()) }) {
			t.Errorf("%s: no reason, or no server", k.server)
		}
	}
}

func TestWhatIsCompared(t *testing.T) {
	s := server{
		name: "everything over stdio", proof: "hi",
		plan: conformance.Plan{Tools: []conformance.Named{tool("echo"), tool("absent")}},
	}
	look := func(seen string) map[string]string {
		items := map[string]string{}
		var all map[string]json.RawMessage
		if err := json.Unmarshal([]byte(seen), &all); err != nil {
			t.Fatal(err)
		}
		for name, value := range all {
			if err := itemise(items, name, value, s.plan); err != nil {
				t.Fatal(err)
			}
		}
		return items
	}
	const seen = `{"tools":[{"name":"echo"}],"called":["hi","no"],"together":[1,2],"after":"hi"}`
	for name, tc := range map[string]struct {
		through string
		wrong   []string
		late    bool
	}{
		"the same": {seen, nil, false},
		"in another order": {
			`{"tools":[{"name":"echo"}],"called":["hi","no"],"together":[2,1],"after":"hi"}`, nil,
			false,
		},
		"a tool less": {`{"tools":[],"called":["hi","no"],"together":[2,1],"after":"hi"}`, []string{"tools"}, false},
		"another answer": {
			`{"tools":[{"name":"echo"}],"called":["hi","yes"],"together":[2,1],"after":"hi"}`,
			[]string{"call 1 absent"},
			false,
		},
		"an answer less": {
			`{"tools":[{"name":"echo"}],"called":["hi","no"],"together":[1],"after":"hi"}`,
			[]string{"together"},
			false,
		},
		"nothing": {
			`{"tools":[{"name":"echo"}],"called":["hi","no"],"together":[1,2]}`,
			[]string{"after"},
			false,
		},
		"one that ran late": {
			`{"tools":[{"name":"echo"}],"called":["hi","no"],"together":[1,2],"after":"Request timed out"}`,
			[]string{"after"},
			true,
		},
		"an answer that is no": {
			`{"tools":[{"name":"echo"}],"called":["hi",null],"together":[1,2],"after":"hi"}`,
			[]string{"call 1 absent"},
			false,
		},
	} {
		c := comparison{server: s.called(), client: "Go SDK"}
		c.judge(s, look(seen), look(tc.through))
		wrong := []string{}
		for item := range c.wrong {
			wrong = append(wrong, item)
		}
		slices.Sort(wrong)
		if c.err != nil || !slices.Equal(wrong, tc.wrong) && len(tc.wrong)+len(wrong) > 0 || c.late != tc.late {
			t.Errorf("%s: %v differ, late %v, %v", name, wrong, c.late, c.err)
		}
	}
	c := comparison{server: s.called(), client: "Go SDK"}
	if c.judge(s, map[string]string{"tools": "[]"}, map[string]string{"tools": "[]"}); c.err == nil {
		t.Error("two clients that see nothing are equal")
	}
}

// pinned are the versions of packages of npm.
func pinned(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/npm/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var packages struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(data, &packages); err != nil {
		t.Fatal(err)
	}
	return packages.Dependencies
}

// The page says of each server what its row says.
func TestThePageHasTheServersThatWereTried(t *testing.T) {
	versions := pinned(t)
	var table strings.Builder
	table.WriteString("| server | version | `transport` | `args` | `env` |\n| --- | --- | --- | --- | --- |\n")
	for _, s := range servers {
		of := strings.TrimPrefix(s.from, "github.com/")
		transport := "`" + string(cmp.Or(s.transport, overStdio)) + "`"
		if s.path != "" {
			transport += ", `path: " + s.path + "`"
		}
		var variables []string
		for _, name := range slices.Sorted(maps.Keys(s.env)) {
			text := "`" + name + "`"
			if value := s.env[name]; value != "none" {
				text = "`" + name + ": " + value + "`"
			}
			variables = append(variables, text)
		}
		args := ""
		if len(s.args) > 0 {
			args = "`" + strings.Join(s.args, " ") + "`"
		}
		version := cmp.Or(versions[s.from], "of its module")
		row := []string{of, version, transport, args, strings.Join(variables, ", ")}
		table.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	golden.Part(t, "../../docs/start/tried.md", "<!-- generated from test/wild -->\n",
		"<!-- end of what is generated -->\n", table.String())
}
