package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/test/golden"
)

// desk is a program whose clock stands, and what it prints.
type desk struct {
	*cli
	out, err bytes.Buffer
}

func sit(in string) *desk {
	d := &desk{}
	d.cli = newCLI(genericiooptions.IOStreams{In: strings.NewReader(in), Out: &d.out, ErrOut: &d.err})
	d.now = func() time.Time { return time.Date(2026, 1, 3, 12, 0, 0, 0, time.UTC) }
	return d
}

// said is all that came of a command.
func (d *desk) said(code int) string {
	return fmt.Sprintf("exit code %d\n--- output\n%s--- errors\n%s", code, d.out.String(), d.err.String())
}

// object is one of the objects in testdata, as an API server gave them.
func (d *desk) object(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	u, err := d.file(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestWhatCommandsPrint(t *testing.T) {
	for name, args := range map[string]string{
		"owners-server":            "owners -f testdata/server.yaml",
		"owners-server-wrong":      "owners -f testdata/server-wrong.yaml",
		"owners-server-wide":       "owners -f testdata/server-wrong.yaml -o wide",
		"owners-server-json":       "owners -f testdata/server-wrong.yaml -o json",
		"owners-server-yaml":       "owners -f testdata/server.yaml -o yaml",
		"owners-proxy":             "owners -f testdata/proxy.yaml",
		"owners-other-kind":        "owners -f testdata/shop.yaml",
		"owners-no-such-format":    "owners -f testdata/shop.yaml -o xml",
		"owners-both":              "owners deployment x -f testdata/shop.yaml",
		"owners-no-managed-fields": "owners -f testdata/bare.yaml",
		"release-unnamed":          "release deployment x",
		"release-dry-run-client":   "release deployment x --manager m --dry-run=client",
		"unknown-command":          "owner deployment x",
		"complete-kinds":           "__complete owners ",
	} {
		t.Run(name, func(t *testing.T) {
			d := sit("")
			code := d.run(t.Context(), strings.Split(args, " "))
			golden.File(t, filepath.Join("testdata", "golden", name+".txt"), "kubectl freehold "+args+"\n"+d.said(code))
		})
	}
}

func TestAnObjectMayComeFromAPipe(t *testing.T) {
	data, err := os.ReadFile("testdata/shop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	piped, file := sit(string(data)), sit("")
	codes := [2]int{
		piped.run(t.Context(), []string{"owners", "-f", "-"}),
		file.run(t.Context(), []string{"owners", "-f", "testdata/shop.yaml"}),
	}
	if diff := cmp.Diff(file.said(codes[1]), piped.said(codes[0])); diff != "" {
		t.Errorf("(-file +pipe):\n%s", diff)
	}
}

func TestWhatAuditFinds(t *testing.T) {
	for name, tc := range map[string]struct {
		servers, children []string
		unread            error
		format            string
	}{
		"audit-fine":       {[]string{"server"}, []string{"backend"}, nil, ""},
		"audit-wrong":      {[]string{"server-wrong"}, []string{"proxy", "backend-scaled"}, nil, ""},
		"audit-wrong-json": {[]string{"server-wrong"}, []string{"backend-scaled"}, nil, "json"},
		"audit-empty":      {nil, nil, nil, ""},
		"audit-unread":     {nil, nil, io.ErrUnexpectedEOF, ""},
		"audit-forbidden": {
			[]string{"server"},
			[]string{"backend"},
			fmt.Errorf("listing: %w", errors.Join(refused("rbac.authorization.k8s.io", "roles"), refused("", "services"))), "",
		},
		"audit-wrong-unread": {nil, []string{"backend-scaled"}, io.ErrUnexpectedEOF, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := sit("")
			var servers, children []*unstructured.Unstructured
			for _, name := range tc.servers {
				servers = append(servers, d.object(t, name))
			}
			for _, name := range tc.children {
				children = append(children, d.object(t, name))
			}
			code := d.exit(d.judgeAll(output{format: tc.format}, servers, children, tc.unread))
			golden.File(t, filepath.Join("testdata", "golden", name+".txt"), d.said(code))
		})
	}
}

// Without a yes nothing is sent: there is no cluster here to send it to.
func TestReleaseShowsAndAsks(t *testing.T) {
	for name, tc := range map[string]struct {
		object, answer string
		releasing
	}{
		"release-no":        {"proxy", "n\n", releasing{manager: "argocd-controller"}},
		"release-no-answer": {"server", "", releasing{manager: "billing"}},
		"release-status":    {"server", "no\n", releasing{manager: "runner.freehold.dev/report", subresource: "status"}},
		"release-update":    {"server-wrong", "y\n", releasing{manager: "kubectl-edit"}},
		"release-nothing":   {"backend", "y\n", releasing{manager: "nobody"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := sit(tc.answer)
			code := d.exit(d.handBack(context.Background(), d.object(t, tc.object), tc.releasing))
			golden.File(t, filepath.Join("testdata", "golden", name+".txt"), d.said(code))
		})
	}
}

// As kubectl has it, and as a flag without a value.
func TestADryRunIsOfTheServer(t *testing.T) {
	for text, want := range map[string]string{
		"server": "server", "true": "server", "none": "none", "false": "none",
		"client": "",
	} {
		var d dryRun
		if err := d.Set(text); (err == nil) != (want != "") || err == nil && d.String() != want {
			t.Errorf("--dry-run=%s is %s: %v", text, &d, err)
		}
	}
	if flag := sit("").release().Flags().Lookup("dry-run"); flag.NoOptDefVal != "server" {
		t.Errorf("--dry-run alone is %q", flag.NoOptDefVal)
	}
}

// A shared field that somebody else holds is a fact, and no fault.
func TestASharedFieldIsYielded(t *testing.T) {
	d := sit("")
	d.contract = ownership.Contract{Grants: []ownership.Grant{{
		Manager: "tests.freehold.dev/one", Object: contract.StatefulSet, Mode: ownership.Shared,
		Fields: ownership.Paths("spec.replicas"),
	}}}
	backend := d.object(t, "backend-scaled")
	code := d.exit(d.showOwners(backend, output{}))
	code += d.exit(d.judgeAll(output{}, nil, []*unstructured.Unstructured{backend}, nil))
	golden.File(t, filepath.Join("testdata", "golden", "owners-yielded.txt"), d.said(code))
}

func TestVerdictsHaveColoursOnATerminal(t *testing.T) {
	defer func(before func(io.Writer) bool) { colours = before }(colours)
	colours = func(io.Writer) bool { return true }
	d := sit("")
	golden.File(t, filepath.Join("testdata", "golden", "owners-coloured.txt"),
		d.said(d.run(t.Context(), []string{"owners", "-f", "testdata/server-wrong.yaml"})))
}

// What a cluster holds may be written by anybody.
func TestNamesCannotOrderATerminal(t *testing.T) {
	d := sit("")
	shop := d.object(t, "shop")
	entries := shop.GetManagedFields()
	entries[0].Manager = "team\x1b[2J\nroot\tall"
	shop.SetManagedFields(entries)
	if err := d.showOwners(shop, output{}); err != nil {
		t.Fatal(err)
	}
	if got := d.out.String(); strings.ContainsAny(got, "\x1b\t") || !strings.Contains(got, "team^[[2J root all") {
		t.Errorf("printed\n%q", got)
	}
}

// A group of somebody else's may have a kind of the same name.
func TestAuditAsksForKindsOfTheirGroup(t *testing.T) {
	want := []string{"Deployment.v1.apps"}
	d := sit("")
	d.contract = ownership.Contract{Grants: []ownership.Grant{
		{Object: contract.Deployment, Names: []string{"SERVER-proxy"}}, {Object: contract.ConfigMap},
	}}
	if diff := cmp.Diff(want, d.childKinds()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := argument(contract.Service); got != "Service.v1." {
		t.Errorf("a Service is asked for as %q", got)
	}
}

// HTTPRoutes are asked for where a server has one, or tells of one.
func TestAuditAsksForHTTPRoutesOfServers(t *testing.T) {
	plain, told := reports(t, "MCPServer", "ns", "a", ""),
		reports(t, "MCPRemoteProxy", "ns", "a", is("Published", "True", "a", ""))
	asked := fromYAML(t, `{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: a},
		spec: {proxy: {httpRoute: {parentRefs: [{name: public}], hostnames: [mcp.example.com]}}}}`)
	for name, tc := range map[string]struct {
		servers []*unstructured.Unstructured
		want    bool
	}{
		"none":            {nil, false},
		"one without":     {[]*unstructured.Unstructured{plain}, false},
		"one of two":      {[]*unstructured.Unstructured{plain, asked}, true},
		"one of a status": {[]*unstructured.Unstructured{told}, true},
	} {
		kinds := audited([]string{"Service.v1.", argument(contract.HTTPRoute)}, tc.servers)
		if got := slices.Contains(kinds, argument(contract.HTTPRoute)); got != tc.want || kinds[0] != "Service.v1." {
			t.Errorf("%s: it asks for %q", name, kinds)
		}
	}
}
