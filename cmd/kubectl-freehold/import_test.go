package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/golden"
)

// samples are objects of others, after their published schemas.
func samples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/import/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("there are the samples %q: %v", files, err)
	}
	return files
}

func imported(t *testing.T, file string) string {
	t.Helper()
	d := sit("")
	if code := d.run(t.Context(), []string{"import", "--images=never", "-f", file}); code == exitError {
		t.Fatal(d.said(code))
	}
	return d.out.String()
}

// What is printed is compared as a whole. test/input has the API server take it.
func TestWhatImportMakesOfSamples(t *testing.T) {
	for _, file := range samples(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		golden.File(t, filepath.Join("testdata", "golden", "import-"+name+".yaml"), imported(t, file))
	}
}

func documents(text string) []string {
	var found []string
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		if strings.Contains(document, "kind:") {
			found = append(found, document)
		}
	}
	return found
}

// A field that is none of ours would be pruned in silence.
func TestImportMakesOnlyFieldsOfOurs(t *testing.T) {
	ours := map[string]func() any{
		"MCPServer":      func() any { return &v1alpha1.MCPServer{} },
		"MCPRemoteProxy": func() any { return &v1alpha1.MCPRemoteProxy{} },
		"MCPOIDCConfig":  func() any { return &v1alpha1.MCPOIDCConfig{} },
		"MCPAuthzConfig": func() any { return &v1alpha1.MCPAuthzConfig{} },
		"MCPGroup":       func() any { return &v1alpha1.MCPGroup{} },
	}
	checked := 0
	for _, file := range samples(t) {
		for _, document := range documents(imported(t, file)) {
			var header struct{ Kind string }
			if err := yaml.Unmarshal([]byte(document), &header); err != nil {
				t.Fatal(err)
			}
			if header.Kind == "" {
				continue // comments only
			}
			if err := yaml.UnmarshalStrict([]byte(document), ours[header.Kind]()); err != nil {
				t.Errorf("%s: %v\n%s", file, err, document)
			}
			checked++
		}
	}
	if checked < 10 {
		t.Errorf("%d objects were checked", checked)
	}
}

// taken are fields whose meaning is in what was made, without their value.
var taken = regexp.MustCompile(
	`^spec\.(type|protocol|transport|authType|config\.type|config\.\w+\.headersFrom\[\d+\]\.valueFrom\.type|config\.stdio\.envFrom\[\d+\]\.valueFrom\.(type|valueRef)|stdioTransport|source\.type|config\.storage\[\d+\]\.(permissions|source\.type)|transportType|mcp\.stateless|` +
		`proxyMode|permissionProfile\.(type|name)|audit\.enabled|config\.group_claim_name|authzConfig\.(type|inline\.entitiesJson|groupEntityType|groupClaimName)|` +
		`oidcConfig\.(type|kubernetes\.issuer|inline\.insecureAllowHTTP)|inline\.\w+PrivateIP|kubernetesServiceAccount\.useClusterAuth|podTemplateSpec\.spec\.containers\[\d+\]\.(name|ports\[\d+\]\.name|livenessProbe\.httpGet\.port))$`)

// No value gets lost: it stands in the object, or a comment names its field.
func TestImportSaysWhatBecameOfEachValue(t *testing.T) {
	checked := 0
	for _, file := range samples(t) {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range documents(string(source)) {
			d := sit(document)
			if code := d.run(t.Context(), []string{"import", "--images=never", "-f", "-"}); code == exitError {
				t.Fatal(d.said(code))
			}
			var object map[string]any
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatal(err)
			}
			for path, value := range values("spec", object["spec"]) {
				checked++
				if !taken.MatchString(path) && !stands(t, d.out.String(), path, value) {
					t.Errorf("%s: nothing says what became of %s: %v\n%s", file, path, value, d.out.String())
				}
			}
		}
	}
	if checked < 150 {
		t.Errorf("%d values were checked", checked)
	}
}

// values are all leaves of an object.
func values(path string, value any) map[string]any {
	found := map[string]any{}
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			for p, leaf := range values(path+"."+key, below) {
				found[p] = leaf
			}
		}
	case []any:
		for i, below := range v {
			for p, leaf := range values(fmt.Sprintf("%s[%d]", path, i), below) {
				found[p] = leaf
			}
		}
	default:
		found[path] = value
	}
	return found
}

// remarked is a comment about a field.
var remarked = regexp.MustCompile(`^# - (spec\.\S+?)(:| --) `)

// stands reports whether an object has a value, or a comment a field or one that it is in.
func stands(t *testing.T, printed, path string, value any) bool {
	t.Helper()
	for line := range strings.Lines(printed) {
		if quoted, err := json.Marshal(value); err == nil && strings.HasPrefix(line, "# - spec is left out") &&
			strings.Contains(line, string(quoted)) {
			return true
		}
		if remark := remarked.FindStringSubmatch(line); remark != nil && strings.HasPrefix(path, remark[1]) {
			return true
		}
	}
	for _, document := range documents(printed) {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		for _, ours := range values("", object) {
			if same := fmt.Sprint(ours); same == fmt.Sprint(value) || same == strings.TrimSuffix(fmt.Sprint(value), "/mcp") {
				return true
			}
		}
	}
	return false
}

// Whoever called without a login before may not do so afterwards.
func TestImportSuspendsWhatIsNoLongerGuarded(t *testing.T) {
	for field, suspended := range map[string]bool{
		"authzConfig: {type: configMap, configMap: {name: p}}": true,
		"oidcConfig: {type: configMap, configMap: {name: p}}":  true,
		"webhookConfigRef: {name: p}":                          true,
		"authServerRef: {name: p}":                             true,
		"tools: [add]":                                         true,
		// NotEnforced refuses all calls
		"externalAuthConfigRef: {name: p}":                                             false,
		"rateLimiting: {shared: {maxTokens: 1}}":                                       false,
		"oidcConfigRef: {name: p, audience: a}":                                        false,
		"authzConfig: {type: inline, inline: {policies: [a]}, groupClaimName: groups}": false,
		"authzConfig: {type: inline, inline: {policies: [a]}, groupClaimName: team}":   true,
	} {
		d := sit("apiVersion: toolhive.stacklok.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: a}\nspec: {image: a, " +
			"transport: sse, " + field + "}\n")
		if code := d.run(t.Context(), []string{"import", "--images=never", "-f", "-"}); code == exitError {
			t.Fatal(d.said(code))
		}
		if got := strings.Contains(d.out.String(), "suspend: true\n"); got != suspended {
			t.Errorf("%s: suspended %t, want %t\n%s", field, got, suspended, d.out.String())
		}
	}
}

// Helm, Argo CD, Flux and kubectl prune or overwrite what has their labels and
// annotations: ours is none of their objects.
func TestImportLeavesOutWhatToolsKnowTheirObjectsBy(t *testing.T) {
	for key, kept := range map[string]bool{
		"app.kubernetes.io/managed-by":                     false,
		"app.kubernetes.io/instance":                       false,
		"app.kubernetes.io/part-of":                        true,
		"helm.sh/chart":                                    false,
		"meta.helm.sh/release-name":                        false,
		"argocd.argoproj.io/tracking-id":                   false,
		"kustomize.toolkit.fluxcd.io/name":                 false,
		"helm.toolkit.fluxcd.io/namespace":                 false,
		"kubectl.kubernetes.io/last-applied-configuration": false,
		"applyset.kubernetes.io/part-of":                   false,
		"config.k8s.io/owning-inventory":                   false,
		"internal.config.kubernetes.io/path":               false,
		"objectset.rio.cattle.io/hash":                     false,
		"kapp.k14s.io/app":                                 false,
		"tanka.dev/environment":                            false,
		"example.com/helm.sh":                              true,
		"nothelm.sh/chart":                                 true,
		"team":                                             true,
		"helm.sh":                                          true,
	} {
		for _, field := range []string{"labels", "annotations"} {
			d := sit("apiVersion: kagent.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: a, " + field + ": {\"" + key +
				"\": s3cr3t}}\n" +
				"spec: {transportType: http, deployment: {image: a}}\n")
			code := d.run(t.Context(), []string{"import", "--images=never", "-f", "-"})
			if code != exitFine {
				t.Fatal(d.said(code))
			}
			named := strings.Contains(d.out.String(), "\n# - metadata."+field+"["+key+"] -- ")
			if has := strings.Contains(d.out.String(), key+": s3cr3t\n"); has != kept || named == kept ||
				strings.Contains(d.out.String(), "s3cr3t") != kept {
				t.Errorf("%s %s: kept %t, want %t; named %t\n%s", field, key, has, kept, named, d.out.String())
			}
		}
	}
}

// What a source holds stays in its comment, and a secret out of it.
func TestImportPrintsCommentsThatStayComments(t *testing.T) {
	d := sit(`{"apiVersion": "kagent.dev/v1alpha1", "kind": "MCPServer", "metadata": {"name": "a"},
		"spec": {"transportType": "http", "deployment": {"image": "a"}, "x\u0085spec: {suspend: false}": "y\u2028kind: Pod", "z\nkind": 1}}`)
	code := d.run(t.Context(), []string{"import", "--images=never", "-f", "-"})
	if lines := strings.Count(d.out.String(), "\n# - "); code != exitWrong || lines != 3 ||
		strings.ContainsAny(d.out.String(), "\u0085\u2028") {
		t.Errorf("%d comments:\n%s", lines, d.said(code))
	}
	if secret := imported(t, "testdata/import/toolhive.yaml"); strings.Contains(secret, "s3cr3t") {
		t.Errorf("a secret was printed:\n%s", secret)
	}
}

func TestImportNamesWhatItCannotRead(t *testing.T) {
	secret := "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
	ours := "---\napiVersion: kagent.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: a}\nspec: {transportType: http, " +
		"deployment: {image: a}}\n"
	for name, tc := range map[string]struct {
		in   string
		code int
	}{"beside others": {ours + secret, exitFine}, "alone": {secret, exitError}} {
		d := sit(tc.in)
		if code := d.run(t.Context(), []string{"import", "--images=never", "-f", "-"}); code != tc.code ||
			!strings.Contains(d.err.String(), "left out: Secret/s: Secret in v1 cannot be imported") {
			t.Errorf("%s:\n%s", name, d.said(code))
		}
	}
}

// What kustomize and Helm keep beside objects has no kind. Each object that is left out has a line of its own.
func TestImportPrintsWhatItCanReadOfAFolder(t *testing.T) {
	dir := t.TempDir()
	for file, content := range map[string]string{
		"a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: " +
			"{name: c}\n",
		"b.yaml": "resources: [a.yaml]\n",
		"c.yaml": "not: [a kind]\n---\n" +
			"apiVersion: kagent.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: first}\nspec: {transportType: http, " +
			"deployment: {image: a}}\n",
		"d.yaml": "apiVersion: kagent.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: second}\nspec: {transportType: http, " +
			"deployment: {image: a}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := sit("")
	code := d.run(t.Context(), []string{"import", "--images=never", "-f", dir})
	for _, want := range []string{
		"name: first\n", "name: second\n", "b.yaml", "c.yaml", "left out: Secret/s",
		"left out: ConfigMap/c",
	} {
		if !strings.Contains(d.said(code), want) {
			t.Errorf("%q is missing", want)
		}
	}
	if kinds := strings.Count(d.err.String(), "VirtualMCPServer in "); code != exitError || kinds != 1 {
		t.Errorf("the kinds are named %d times\n%s", kinds, d.said(code))
	}
}
