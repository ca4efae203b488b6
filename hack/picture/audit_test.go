package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const server = "/apis/freehold.dev/v1alpha1/namespaces/demo/mcpservers/everything"

func TestHowAWriteIsDone(t *testing.T) {
	for name, tc := range map[string]struct{ verb, query, want string }{
		"an apply":                 {"patch", "?fieldManager=m&force=true", "apply"},
		"its options in any order": {"patch", "?force=true&fieldManager=m", "apply"},
		"an apply that yields":     {"patch", "?fieldManager=m&force=false", "unforced patch"},
		"a merge or JSON patch":    {"patch", "?fieldManager=m", "unforced patch"},
		"one without a manager":    {"patch", "", "unforced patch"},
		"force without a manager":  {"patch", "?force=true", "unforced patch"},
		"an update":                {"update", "?fieldManager=m", "update"},
		"a deletion":               {"delete", "", "delete"},
	} {
		if got := (auditEvent{Verb: tc.verb, URI: server + tc.query}).how(); got != tc.want {
			t.Errorf("%s is called %q, want %q", name, got, tc.want)
		}
	}
}

// line is one of an audit log, as kube-apiserver writes it.
func line(agent, verb, resource, query string) string {
	return fmt.Sprintf(
		`{"stage":"ResponseComplete","verb":%q,"userAgent":%q,"requestURI":%q,"requestReceivedTimestamp":"2026-01-02T00:00:00.000000Z",`+
			`"user":{"username":"system:serviceaccount:freehold-system:freehold-operator"},`+
			`"impersonatedUser":{"username":"system:serviceaccount:freehold-system:freehold-mcpserver"},`+
			`"objectRef":{"namespace":"demo","resource":%q},"responseStatus":{"code":200}}`, verb, agent, server+query,
		resource) + "\n"
}

// secret is a write of a Secret without force, and what the API server answered.
func secret(code string) string {
	return strings.Replace(line("freehold-operator/v1", "patch", "secrets", "?fieldManager=m&force=false"), "200", code, 1)
}

func TestWritesThatAreNoAppliesAreFound(t *testing.T) {
	good := line("freehold-operator/v1", "patch", "mcpservers", "?fieldManager=m&force=true") +
		line("freehold-operator/v1", "delete", "configmaps", "") +
		line("freehold-operator/v1", "create", "events", "") +
		line("freehold-operator/v1", "list", "mcpservers", "") +
		line("kubectl/v1", "patch", "mcpservers", "?fieldManager=kubectl-edit")
	for name, tc := range map[string]struct{ more, since, want string }{
		"none":              {"", "", ""},
		"a Secret, once":    {secret("201") + secret("409"), "", ""},
		"a Secret, changed": {secret("200"), "", "1 writes were not applies"},
		"a merge patch": {
			line("freehold-operator/v1", "patch", "services", "?fieldManager=m"), "",
			"1 writes were not applies",
		},
		"an update": {
			line("freehold-runner/v1", "update", "services", "?fieldManager=m"), "",
			"1 writes were not applies",
		},
		"one of before": {
			line("freehold-runner/v1", "update", "services", "?fieldManager=m"), "2026-01-03T00:00:00Z",
			"",
		},
		"one elsewhere": {strings.Replace(line("freehold-runner/v1", "update", "services", "?fieldManager=m"), `"demo"`,
			`"e2e"`, 1), "", ""},
		"a line half written": {`{"stage":"Resp`, "", ""},
	} {
		log := filepath.Join(t.TempDir(), "audit.log")
		if err := os.WriteFile(log, []byte(good+tc.more), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		got := ""
		if err := writes(log, "demo", tc.since, &out); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q\n%s", name, got, tc.want, out.String())
		}
		if row := "freehold-mcpserver  apply"; tc.since == "" && !strings.Contains(out.String(), row) {
			t.Errorf("%s: %q is not in\n%s", name, row, out.String())
		}
	}
}
