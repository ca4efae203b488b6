package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/test/golden"
)

// What may be secret, in each place where an object has it.
const leaky = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: everything
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"spec":{"env":[{"value":"s3cret"}]}}'
    note: stays
    packed: "H4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cretH4sIAs3cret"
data:
  run.json: '{"backend":{"env":[{"name":"TOKEN","value":"s3cret"}]},"kept":"image"}'
  text: stays
spec:
  args: [--stays, --token=s3cret, --key, s3cret, stays, TOKEN=s3cret, "stays:a=b"]
  headers:
  - {name: Authorization, value: s3cret}
  env:
  - {name: TOKEN, value: s3cret}
  - {name: FROM, valueFrom: {secretKeyRef: {name: stays, key: k}}}
  template:
    metadata:
      annotations:
        freehold.dev/run-config: '{"backend":{"args":["--token=s3cret"],"env":[{"name":"TOKEN","value":"s3cret"}]},"kept":"image"}'
    spec:
      initContainers:
      - {name: a, env: [{name: B, value: s3cret}]}
      containers:
      - {name: c, env: {C: s3cret}, command: [stays, -k, s3cret], livenessProbe: {httpGet: {httpHeaders: [{name: A, value: s3cret}]}}}
`

func TestABundleHasNoSecrets(t *testing.T) {
	u := fromYAML(t, leaky)
	before := u.DeepCopy()
	b := newBundle()
	data, err := yaml.Marshal(b.redact(u).Object)
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, filepath.Join("testdata", "golden", "debug-redacted.yaml"), string(data))
	if strings.Contains(string(data), "s3cret") {
		t.Error("a secret is left")
	}
	if text, _ := yaml.Marshal(before.Object); !bytes.Contains(text, []byte("s3cret")) ||
		u.GetAnnotations()["note"] != "stays" {
		t.Error("the test has no secret to leave out")
	}
	secret := b.redact(fromYAML(t,
		`{kind: Secret, metadata: {name: x}, data: {token: czNjcmV0}, stringData: {other: s3cret}}`))
	if text, _ := yaml.Marshal(secret.Object); strings.Contains(string(text), "czNjcmV0") ||
		strings.Contains(string(text), "s3cret") {
		t.Errorf("a Secret has its data: %s", text)
	}
}

func TestWhatIsInABundle(t *testing.T) {
	d := sit("")
	server := d.object(t, "server")
	server.SetUID("1")
	event := func(name, uid, at, message string) *unstructured.Unstructured {
		return fromYAML(t, `{apiVersion: v1, kind: Event, metadata: {name: `+name+`}, type: Warning, reason: R, message: "`+
			message+`", lastTimestamp: "`+at+`", involvedObject: {kind: Pod, name: p, uid: "`+uid+`"}}`)
	}
	b := newBundle()
	b.object("", server)
	b.objects("objects/", []*unstructured.Unstructured{d.object(t, "proxy"), d.object(t, "backend")}, nil)
	b.objects("configurations/", nil, errors.New("forbidden"))
	b.events([]*unstructured.Unstructured{
		event("b", "1", "2026-01-01T00:00:02Z", "later"), event("a", "1", "2026-01-01T00:00:01Z", "earlier"),
		event("c", "2", "2026-01-01T00:00:01Z", "another's"),
	}, []*unstructured.Unstructured{server}, nil)
	b.version()
	var packed bytes.Buffer
	d.Out = &packed
	if err := d.write(&b, server, "-"); err != nil {
		t.Fatal(err)
	}
	uncompressed, err := gzip.NewReader(bytes.NewReader(packed.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var listing strings.Builder
	for archive := tar.NewReader(uncompressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		listing.WriteString(header.Name + "\n")
		if strings.HasSuffix(header.Name, ".txt") {
			text, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				listing.WriteString("    " + line)
			}
		}
	}
	golden.File(t, filepath.Join("testdata", "golden", "debug-bundle.txt"), listing.String())
}

// Of a server's objects the one that holds its key is not even read.
func TestABundleReadsNoSecret(t *testing.T) {
	d := sit("")
	d.contract = ownership.Contract{Grants: []ownership.Grant{
		{Object: contract.Secret, Names: []string{"SERVER-session"}},
		{Object: contract.Deployment, Names: []string{"SERVER-proxy"}},
	}}
	if kinds := d.bundledKinds(); !slices.Equal(kinds, []string{"Deployment.v1.apps", "pods.v1."}) {
		t.Errorf("it reads %v", kinds)
	}
}

// What was left out of an object is left out of the logs and messages that repeat it, and
// so is what is a password by its form.
func TestABundleRepeatsNoSecret(t *testing.T) {
	b := newBundle()
	b.object("", fromYAML(t, `{kind: MCPServer, metadata: {name: echo, namespace: ns}, spec: {
		env: [{name: LONG, value: hostile-value-1}, {name: LONGER, value: hostile-value-1-and-more}, {name: SHORT, value: info}],
		args: [--token=hostile-flag, "postgres://me:hostile-password@db/x"]}}`))
	// YAML breaks long lines at spaces, and doubles quotes.
	b.object("objects/", fromYAML(t,
		`{kind: Pod, metadata: {name: p, namespace: ns, annotations: {"said: it's-a-hostile-pass": stays}}, spec: {
		env: [{name: DSN, value: host=hostile user=hostile password=hostile dbname=hostile}, {name: QUOTE, value: it's-a-hostile-pass}]}, status: {
		message: "the backend cannot connect to its database with host=hostile user=hostile password=hostile dbname=hostile and ends",
		conditions: [{message: "the backend ends: it has no database with host=hostile user=hostile password=hostile dbname=hostile and it's over"},
			{message: "refused: it's-a-hostile-pass"}]}}`))
	b.object("operator/", fromYAML(t,
		`{kind: Deployment, metadata: {name: o, namespace: ns}, spec: {args: [--runner-image=freehold.dev/runner:v1]}}`))
	b.said("logs/o.log", "the runner is freehold.dev/runner:v1\n")
	b.said("logs/a.log", "info: no access with hostile-value-1-and-more, hostile-value-1, or hostile-flag\n")
	b.said("events.txt", "GET https://me:hostile-password@db/x with Authorization: Bearer hostile.token-of_someone\n")
	b.said("status.txt", "a token eyJhbGciOiJub25lIn0.eyJzdWIiOiJob3N0aWxlIn0.c2lnbmF0dXJl and mail to me@example.com "+
		"at https://example.com/a@b\n")
	want := map[string]string{
		"logs/o.log": "the runner is freehold.dev/runner:v1\n",
		"logs/a.log": "info: no access with REDACTED, REDACTED, or REDACTED\n",
		"events.txt": "GET https://REDACTED@db/x with Authorization: Bearer REDACTED\n",
		"status.txt": "a token REDACTED and mail to me@example.com at https://example.com/a@b\n",
	}
	b.render()
	for name, text := range b.files {
		got := b.scrub(string(text))
		if strings.Contains(got, "hostile") || want[name] != "" && got != want[name] {
			t.Errorf("%s says:\n%s", name, got)
		}
	}
	if got := b.scrub("postgres://me:hostile-password@db/x"); got != "postgres://REDACTED@db/x" {
		t.Errorf("an argument became %s", got)
	}
	var packed bytes.Buffer
	if err := b.pack(&packed, "root"); err != nil {
		t.Fatal(err)
	}
	uncompressed, err := gzip.NewReader(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(uncompressed); err != nil || bytes.Contains(text, []byte("hostile")) {
		t.Errorf("the archive has what was left out: %v", err)
	}
}

// What may be secret is left out in each form in which it may stand.
func TestABundleHasNoSecretInAnotherForm(t *testing.T) {
	b := newBundle()
	b.object("", fromYAML(t, `{kind: MCPServer, metadata: {name: echo, namespace: ns, annotations: {
		patch: '[{"op":"replace","path":"/spec/env/0/value","value":"hostile-patch"}]', packed: '"`+
		strings.Repeat("hostile", 50)+`"', note: "[stays]"}}, spec: {
		env: [{name: LINES, value: "hostile-1 \"a\" <\nhostile-2"}],
		args: [--dsn, "host=hostile user='hostile' password=hostile dbname=hostile", --token, -hostile-dash, --verbose, --port, "80", "https://h/mcp?api_key=hostile&x=hostile", "postgres://u:pa@hostile@db/x"]}, status: {
		message: "there is no database: the backend tried host=hostile user='hostile' password=hostile dbname=hostile and ended"}}`))
	b.render()
	object := b.scrub(string(b.files["mcpserver-echo.yaml"]))
	if strings.Contains(object, "hostile") || !strings.Contains(object, "- --verbose\n  - --port\n") ||
		!strings.Contains(object, "[stays]") {
		t.Errorf("the object is\n%s", object)
	}
	for said, want := range map[string]string{
		`bad value="hostile-1 \"a\" <\nhostile-2" in LINES`:    `bad value="REDACTED" in LINES`,
		`{"value":"hostile-1 \"a\" \u003c\nhostile-2"}`:        `{"value":"REDACTED"}`,
		"hostile-1 \"a\" <\n\thostile-2\n":                     "REDACTED\n\tREDACTED\n",
		"Authorization: Basic aG9zdGlsZTp4":                    "Authorization: Basic REDACTED",
		"map[Authorization:[Negotiate hostile-1234] Host:[h]]": "map[Authorization:[Negotiate REDACTED] Host:[h]]",
		`{"X-Api-Key":["hostile-1234"],"a":"b"}`:               `{"X-Api-Key":["REDACTED"],"a":"b"}`,
		"x-api-key: hostile-1234, and basic aG9zdGlsZTp4":      "x-api-key: REDACTED, and basic REDACTED",
		"GET https://h/mcp?session=hostile&n=hostile#top is refused": "GET https://h/mcp?session=REDACTED&n=REDACTED#top " +
			"is refused",
	} {
		if got := b.scrub(said); got != want {
			t.Errorf("%s became\n%s, want\n%s", said, got, want)
		}
	}
}

// What is in the open anyway stays where a flag or a variable repeats it.
func TestABundleCanBeRead(t *testing.T) {
	b := newBundle()
	b.object("", fromYAML(t, `{kind: MCPServer, metadata: {name: echo-server, namespace: team-production}, spec: {
		image: registry.example.com/tools/everything:1, transport: streamable-http,
		env: [{name: NODE_ENV, value: production}, {name: WHICH, value: everything}, {name: TOKEN, value: hostile-token}],
		args: [--transport=streamable-http, --namespace=team-production, --name, echo-server]}}`))
	const said = "echo-server in team-production runs everything:1 by streamable-http"
	if got := b.scrub(said + " hostile-token"); got != said+" REDACTED" {
		t.Errorf("it says: %s", got)
	}
	b.render()
	object := b.scrub(string(b.files["mcpserver-echo-server.yaml"]))
	for _, line := range []string{
		"name: echo-server\n", "namespace: team-production\n", "transport: streamable-http\n",
		"- --transport=REDACTED\n", "value: REDACTED\n",
	} {
		if !strings.Contains(object, line) {
			t.Errorf("there is no %q in\n%s", line, object)
		}
	}
}
