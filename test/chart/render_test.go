//go:build helm

package chart

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

const chart = "../../config/chart"

// cases are what the chart is rendered with; a case is a golden file. CRDs and policies are left out of them:
// TestChartBringsTheCRDs compares those with config/crd, and TestChartBringsThePolicies with config/policy.
var cases = map[string][]string{
	"default": {"--set", "crds.install=false,policy.install=false"},
	"everything": {
		"--values", "testdata/everything.values.yaml",
		"--set", "crds.install=false",
	},
	// What exists already is not made, and other names.
	"elsewhere": {
		"--values", "testdata/elsewhere.values.yaml",
		"--set", "crds.install=false,policy.install=false",
	},
	"single": {
		"--values", "testdata/single.values.yaml",
		"--set", "crds.install=false,policy.install=false,rbac.create=false,rbac.aggregate=false",
	},
}

// helm runs the pinned Helm without the settings of the machine.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	binary, err := filepath.Abs("../../bin/tools/helm")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := exec.Command(binary, args...)
	cmd.Env = []string{"HOME=" + home, "HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home}
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		if failed.Len() == 0 {
			t.Fatalf("running helm: %v (make bin/tools/helm builds it)", err)
		}
		return failed.String(), err
	}
	return out.String(), nil
}

func render(t *testing.T, args ...string) string {
	t.Helper()
	out, err := helm(t, append([]string{"template", "freehold", chart, "--namespace", "freehold-system"}, args...)...)
	if err != nil {
		t.Fatal(out)
	}
	return out
}

func TestChartIsClean(t *testing.T) {
	if out, err := helm(t, "lint", "--strict", chart); err != nil {
		t.Error(out)
	}
}

func TestChartRendersAsBefore(t *testing.T) {
	for name, args := range cases {
		golden := filepath.Join("testdata", name+".golden.yaml")
		got := render(t, args...)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := firstDifference(string(want), got); diff != "" {
			t.Errorf("the chart renders otherwise than %s says: %s\nIf that is meant, run make golden and look at the diff",
				golden, diff)
		}
	}
}

func firstDifference(want, got string) string {
	if want == got {
		return ""
	}
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(wants), len(gots)) {
		w, g := line(wants, i), line(gots, i)
		if w != g {
			return fmt.Sprintf("line %d was %q and is %q", i+1, w, g)
		}
	}
	return ""
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// TestChartBringsTheCRDs holds that what is installed is what is generated, and that it stays when the chart goes.
func TestChartBringsTheCRDs(t *testing.T) {
	installed := map[string]map[string]any{}
	for _, object := range documents(t, render(t)) {
		if object["kind"] == "CustomResourceDefinition" {
			installed[metadata(object)["name"].(string)] = object
		}
	}
	sources, err := filepath.Glob("../../config/crd/*.yaml")
	if err != nil || len(sources) == 0 || len(sources) != len(installed) {
		t.Fatalf("the chart brings %d CRDs, config/crd holds %d (%v): run make generate", len(installed), len(sources), err)
	}
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var source map[string]any
		if err := yaml.Unmarshal(text, &source); err != nil {
			t.Fatal(err)
		}
		crd := installed[metadata(source)["name"].(string)]
		if crd == nil || !reflect.DeepEqual(crd["spec"], source["spec"]) {
			t.Errorf("the chart's copy of %s differs: run make generate", name)
			continue
		}
		if metadata(crd)["annotations"].(map[string]any)["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s would go with the chart, and every server with it: annotate it with helm.sh/resource-policy: keep",
				name)
		}
	}
}

// TestChartBringsThePolicies holds that what is installed by default is what is generated, and carries
// the labels of its release.
func TestChartBringsThePolicies(t *testing.T) {
	installed := map[string]map[string]any{}
	for _, object := range documents(t, render(t, "--show-only", "templates/policy.yaml")) {
		key := fmt.Sprint(object["kind"], " ", metadata(object)["name"])
		if installed[key] != nil {
			t.Errorf("there are two of %s", key)
		}
		installed[key] = object
		if labels := metadata(object)["labels"].(map[string]any); labels["app.kubernetes.io/instance"] != "freehold" {
			t.Errorf("%s has the labels %v", key, labels)
		}
	}
	sources, err := filepath.Glob("../../config/policy/*.yaml")
	if err != nil || len(installed) != 2*len(sources) {
		t.Errorf("the chart brings %d objects, config/policy holds %d files (%v): run make generate", len(installed),
			len(sources), err)
	}
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, source := range documents(t, string(text)) {
			object := installed[fmt.Sprint(source["kind"], " ", metadata(source)["name"])]
			if diff := cmp.Diff(source["spec"], object["spec"]); diff != "" {
				t.Errorf("the chart's copy of %s differs: run make generate (-source +chart):\n%s", name, diff)
			}
		}
	}
}

// TestPoliciesNameTheOperators holds that the policies know the operator by the
// namespace and the name that the release gives it, and those of other releases.
func TestPoliciesNameTheOperators(t *testing.T) {
	out := render(t, "--namespace", "mcp", "--set", "policy.otherNamespaces={second,third},serviceAccount.name=op")
	policies, bindings := 0, 0
	for _, object := range documents(t, out) {
		switch object["kind"] {
		case "ValidatingAdmissionPolicy":
			policies++
		case "ValidatingAdmissionPolicyBinding":
			bindings++
		}
	}
	all, err := filepath.Glob("../../config/policy/*.yaml")
	if err != nil || policies != len(all) || bindings != policies {
		t.Errorf("there are %d policies and %d bindings, for %d files (%v)", policies, bindings, len(all), err)
	}
	sources, err := filepath.Glob("../../config/policy/managers-*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const labels = 3 // policies of objects that are in no grant
	for _, identity := range []string{"op", contract.IdentityMCPServer, contract.IdentityRBAC} {
		var users []string
		for _, namespace := range []string{"mcp", "second", "third"} {
			users = append(users, fmt.Sprintf("'system:serviceaccount:%s:%s'", namespace, identity))
		}
		of := strings.Join(users, ", ")
		// YAML breaks a long line anywhere.
		if got := strings.Count(strings.Join(strings.Fields(out), " "), of); got < 2*(len(sources)-labels)-1 {
			t.Errorf("%s stands %d times, want twice in each of %d policies, and once in the one of objects without a label", of,
				got, len(sources)-labels)
		}
	}
	if strings.Contains(out, "serviceaccount:freehold-system") {
		t.Error("a policy knows an operator that the release has not")
	}
}

// TestSchemaRefuses holds that a misspelt or impossible value is an error.
func TestSchemaRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ set, says string }{
		"an unknown value":           {"replica=2", "replica"},
		"an unknown nested value":    {"image.version=1", "version"},
		"a text for a number":        {"replicas=many", "replicas"},
		"a pull policy of no kind":   {"image.pullPolicy=Sometimes", "pullPolicy"},
		"a namespace of no kind":     {"namespaces[0]=Team_A", "namespaces"},
		"the probes' port":           {"metrics.port=8081", "port"},
		"the profiles' port":         {"metrics.port=6060", "port"},
		"a format of no kind":        {"log.format=xml", "format"},
		"a time without a unit":      {"leaderElection.leaseDuration=15", "leaseDuration"},
		"a label of the chart's own": {"commonLabels.app\\.kubernetes\\.io/name=x", "app.kubernetes.io/name"},
		"a pod label of its own":     {"podLabels.app\\.kubernetes\\.io/name=x", "app.kubernetes.io/name"},
		"a rule for everything":      {"networkDefaults.egress[0].from=x", "from"},
		"resources of no kind":       {"proxyDefaults.resources.memory=1Gi", "memory"},
		"no proxies by default":      {"proxyDefaults.replicas=0", "replicas"},
		"a pod template of no kind":  {"proxyDefaults.podTemplate.containers[0].name=a", "containers"},
		"a proxy in the node":        {"proxyDefaults.podTemplate.spec.hostNetwork=true", "hostNetwork"},
		"a label of ours":            {"objectDefaults.labels.freehold\\.dev/server=x", "freehold.dev/server"},
		"a key of Kubernetes": {
			"objectDefaults.annotations.service\\.beta\\.kubernetes\\.io/x=y",
			"service.beta.kubernetes.io/x",
		},
		"a selector's label":         {"objectDefaults.inheritLabels[0]=app.kubernetes.io/component", "inheritLabels"},
		"no flag":                    {"extraArgs[0]=profiling", "extraArgs"},
		"a share of pods of no kind": {"podDisruptionBudget.maxUnavailable=half", "maxUnavailable"},
		"a monitor of nothing":       {"metrics.serviceMonitor.enabled=true,metrics.port=0", "set metrics.port"},
		"a monitor without Service": {
			"metrics.serviceMonitor.enabled=true,metrics.port=8080,metrics.service.enabled=false",
			"metrics.service.enabled",
		},
		"a pod monitor of nothing":   {"metrics.podMonitor.enabled=true,metrics.port=0", "set metrics.port"},
		"secure without a port":      {"metrics.secure=true,metrics.port=0", "set metrics.port"},
		"a level of no kind":         {"log.level=loud", "level"},
		"an account of a controller": {"serviceAccount.name=freehold-rbac", "serviceAccount"},
		"a Lease that outlives none": {"leaderElection.renewDeadline=20s", "write a shorter renewDeadline"},
		"a Lease in other units": {
			"leaderElection.leaseDuration=1m,leaderElection.renewDeadline=0.5m30s",
			"write a shorter renewDeadline",
		},
		"a retry that comes late":  {"leaderElection.retryPeriod=9s", "divided by 1.2"},
		"no section":               {"log=null", "log"},
		"no metrics":               {"metrics=null", "metrics"},
		"no part of a section":     {"metrics.proxies=null", "proxies"},
		"no number":                {"concurrency=null", "concurrency"},
		"no level":                 {"log.level=null", "level"},
		"no drain":                 {"replicas=1,podDisruptionBudget.minAvailable=1", "nodes cannot be drained"},
		"no drain in percent":      {"podDisruptionBudget.minAvailable=60%", "nodes cannot be drained"},
		"no drain at all":          {"podDisruptionBudget.maxUnavailable=0%", "nodes cannot be drained"},
		"a budget of nothing":      {"podDisruptionBudget.maxUnavailable=null", "write one of them"},
		"a key that is no label":   {"commonLabels.a b=x", "commonLabels"},
		"a value that is no label": {"commonLabels.a=x y", "commonLabels"},
		"a key of no annotation":   {"commonAnnotations.a b=x", "commonAnnotations"},
		"a test where nobody is":   {"test.image=a,test.namespace=x,namespaces[0]=y", "not in namespaces"},
		"an operator of nowhere":   {"policy.otherNamespaces[0]=Team_A", "otherNamespaces"},
		"policies or none":         {"policy.install=null", "install"},
		"CRDs or none":             {"crds.install=null", "install"},
		"roles or none":            {"rbac.create=null", "create"},
		"more roles or none":       {"rbac.aggregate=null", "aggregate"},
		"an account or none":       {"serviceAccount.create=null", "create"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := helm(t, "template", "freehold", chart, "--set", tc.set)
			if err == nil || !strings.Contains(out, tc.says) {
				t.Errorf("--set %s is not refused by name: %v %s", tc.set, err, firstLine(out))
			}
		})
	}
}

// What is unusual, and right.
func TestSchemaTakes(t *testing.T) {
	for name, set := range map[string]string{
		"one pod that may be stopped": "replicas=1,podDisruptionBudget.minAvailable=0",
		"half of the pods":            "podDisruptionBudget.minAvailable=50%",
		"no budget":                   "podDisruptionBudget=null",
		"no pods":                     "replicas=0,podDisruptionBudget.minAvailable=1",
		"long times":                  "leaderElection.leaseDuration=1h0m1s,leaderElection.renewDeadline=1h,leaderElection.retryPeriod=500ms",
		"no security context":         "podSecurityContext=null,securityContext=null,resources=null",
		"a test where somebody is":    "test.image=a,test.namespace=y,namespaces[0]=x,namespaces[1]=y",
		"labels with a prefix":        "commonLabels.example\\.com/a_b=C.d,commonAnnotations.example\\.com/a=any thing",
		"a Secret twice":              "test.image=a,imagePullSecrets[0].name=a,imagePullSecrets[1].name=a,runner.imagePullSecrets[0].name=a,runner.imagePullSecrets[1].name=a",
	} {
		t.Run(name, func(t *testing.T) {
			out, err := helm(t, "template", "freehold", chart, "--set", set)
			if err != nil {
				t.Fatalf("--set %s is refused: %s", set, out)
			}
			for document := range strings.SplitSeq(out, "\n---\n") {
				if strings.Count(document, "- name: a\n") > 1 {
					t.Errorf("a Secret is named twice in\n%s", document)
				}
			}
		})
	}
}

// What the schema does not require may be left out, as "helm upgrade --reuse-values" does with values that
// the chart of before did not have.
func TestTheChartNeedsNoMoreThanItsSchemaRequires(t *testing.T) {
	top, optional := schema(t), ""
	required, properties := top["required"].([]any), top["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if !slices.Contains(required, any(name)) && heldByTests[name] == "" {
			optional += "," + name + "=null"
		}
	}
	for name, args := range map[string][]string{
		"no sections": {"--set", optional[1:]},
		"each section": {
			"--set",
			"policy.otherNamespaces=null,test.image=a,namespaces=null,runner.imagePullSecrets=null,serviceAccount.annotations=null",
		},
	} {
		if out, err := helm(t, append([]string{"template", "freehold", chart}, args...)...); err != nil {
			t.Errorf("%s: %s", name, out)
		}
	}
}

// A parent chart turns a dependency on and off by a value of that, and Helm passes it on.
func TestTheChartIsADependency(t *testing.T) {
	parent := t.TempDir()
	if err := os.CopyFS(filepath.Join(parent, "charts", "freehold"), os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: parent\nversion: 1.0.0\ndependencies: [{name: freehold, version: '*', " +
			"repository: '', condition: freehold.enabled, tags: [mcp]}]\n",
		"values.yaml": "global: {a: b}\ntags: {mcp: true}\nfreehold: {enabled: true, replicas: 3}\n",
	} {
		if err := os.WriteFile(filepath.Join(parent, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for set, made := range map[string]bool{"freehold.enabled=true": true, "freehold.enabled=false": false} {
		out, err := helm(t, "template", "parent", parent, "--namespace", "apps", "--set", set)
		if err != nil || strings.Contains(out, "replicas: 3\n") != made {
			t.Errorf("--set %s: want an operator: %t; %v %s", set, made, err, firstLine(out))
		}
	}
}

// Names of what stands in no namespace are those of one release.
func TestReleasesDoNotMeet(t *testing.T) {
	long := strings.Repeat("a", 44)
	names := map[string]string{}
	for _, release := range []string{
		"freehold-system/freehold", "x/freehold", "y/freehold", "x/" + long + "-one",
		"x/" + long + "-two",
	} {
		namespace, name, _ := strings.Cut(release, "/")
		out, err := helm(t, "template", name, chart, "--namespace", namespace, "--set",
			"crds.install=false,policy.install=false")
		if err != nil {
			t.Fatal(out)
		}
		for document := range strings.SplitSeq(out, "\n---\n") {
			var object struct {
				Kind     string
				Metadata struct{ Name, Namespace string }
			}
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatal(err)
			}
			key := object.Kind + "/" + object.Metadata.Name
			if object.Kind == "" || object.Metadata.Namespace != "" {
				continue
			}
			if other := names[key]; other != "" && other != release {
				t.Errorf("%s is of %s and of %s", key, other, release)
			}
			names[key] = release
		}
	}
	if len(names) < 25 {
		t.Errorf("there are %d objects", len(names))
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// Helm's merge takes false for unset: merged with ours, a tlsConfig could not turn verification on.
func TestATLSConfigThatIsGivenStaysAsItIs(t *testing.T) {
	for _, monitor := range []string{"serviceMonitor", "podMonitor"} {
		out := render(t, "--set", "metrics.port=8443,metrics.secure=true,metrics."+monitor+".enabled=true,metrics."+monitor+
			".endpoint.tlsConfig.insecureSkipVerify=false",
			"--show-only", "templates/metrics.yaml")
		if !strings.Contains(out, "insecureSkipVerify: false") || strings.Contains(out, "insecureSkipVerify: true") {
			t.Errorf("%s does not verify though it is told to:\n%s", monitor, out)
		}
	}
}

// What docs/how-to/proxy-defaults.md has people write is taken, by the schema and by the operator.
func TestTheProxyDefaultsOfThePageAreTaken(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/proxy-defaults.md")
	if err != nil {
		t.Fatal(err)
	}
	_, values, _ := strings.Cut(string(page), "<<YAML\n")
	values, _, _ = strings.Cut(values, "\nYAML\n")
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	out := render(t, "--values", file, "--show-only", "templates/deployment.yaml")
	flag := regexp.MustCompile(`(?m)^ *- ("--proxy-pod-template=.*")$`).FindStringSubmatch(out)
	if flag == nil || !strings.Contains(out, "--proxy-replicas=2") {
		t.Fatalf("the operator is not told:\n%s", out)
	}
	text, err := strconv.Unquote(flag[1])
	if err != nil {
		t.Fatal(err)
	}
	if problems := podtemplate.CheckRelease(
		podtemplate.Release{ProxyTemplate: []byte(strings.TrimPrefix(text, "--proxy-pod-template="))}); len(problems) > 0 {
		t.Error(problems)
	}
}

// What YAML reads as a number where it is not quoted is a text, and a label that is stated twice is one.
func TestLabelsAndNamespacesAreTexts(t *testing.T) {
	out := render(t, "--namespace", "77", "--set-string",
		"nameOverride=2024,namespaces={123},serviceAccount.name=55,priorityClassName=66,commonLabels.team=1,podLabels.team=2",
		"--set", "networkPolicy.enabled=true,metrics.port=8080,test.image=i:1")
	if twice := regexp.MustCompile(`(?m)^ +team: .*\n +team:`).FindString(out); twice != "" {
		t.Errorf("it says twice\n%s", twice)
	}
	if number := regexp.MustCompile(`(?m)^.*(?:name|namespace|instance|team|Name): \d+$`).FindString(out); number != "" {
		t.Errorf("a number: %s", number)
	}
	for _, object := range documents(t, out) {
		labels, _ := metadata(object)["labels"].(map[string]any)
		if test := strings.HasSuffix(metadata(object)["name"].(string),
			"-test"); test == (labels["app.kubernetes.io/component"] == "operator") &&
			object["kind"] != "CustomResourceDefinition" {
			t.Errorf("%s %s is of the component %v", object["kind"], metadata(object)["name"],
				labels["app.kubernetes.io/component"])
		}
	}
}
