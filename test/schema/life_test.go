package schema

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/test/kit"
)

// verdicts are what kstatus, Argo CD and `kubectl get mcp` make of each state
// in the life of a server: the columns Ready and Reason.
var verdicts = [][4]string{
	{"Git creates it", "InProgress", "Progressing", " "},
	{"it starts", "InProgress", "Progressing", "False Starting"},
	{"an image cannot be pulled", "InProgress", "Progressing", "False ImagePull"},
	{"and cannot for some time", "InProgress", "Progressing", "False ImagePull"},
	{"and cannot for a fifth of the deadline, over a restart of the operator", "Failed", "Degraded", "False ImagePull"},
	{"and still cannot", "Failed", "Degraded", "False ImagePull"},
	{"the image is there", "InProgress", "Progressing", "False Starting"},
	{"it is ready", "Current", "Healthy", "True Ready"},
	{"surplus backends end", "Current", "Healthy", "True Ready"},
	{"Git changes the image", "InProgress", "Progressing", "True Ready"},
	{"it updates", "InProgress", "Progressing", "False Updating"},
	{"it updates, and a pod became ready not long ago", "InProgress", "Progressing", "False Updating"},
	{"it updates without progress", "Failed", "Degraded", "False Updating"},
	{"there is progress after all", "InProgress", "Progressing", "False Updating"},
	{"it has got there", "Current", "Healthy", "True Ready"},
	{"no backend answers", "InProgress", "Progressing", "False Unavailable"},
	{"one does again", "Current", "Healthy", "True Ready"},
	{"Git suspends it", "InProgress", "Progressing", "True Ready"},
	{"it stops", "InProgress", "Progressing", "False Suspended"},
	{"it has stopped", "Current", "Healthy", " Suspended"},
	{"it is still stopped", "Current", "Healthy", " Suspended"},
	{"it has stopped, and its spec is wrong", "Failed", "Degraded", "False SpecInvalid"},
	{"and is right again", "Current", "Healthy", " Suspended"},
	{"Git resumes it", "InProgress", "Progressing", " Suspended"},
	{"it resumes", "InProgress", "Progressing", "False Updating"},
	{"it is ready again", "Current", "Healthy", "True Ready"},
	{"an autoscaler scales it to zero", "InProgress", "Progressing", "False ScaledToZero"},
	{"it has no backend left", "Current", "Healthy", " ScaledToZero"},
	{"an autoscaler scales it up", "InProgress", "Progressing", "False Updating"},
	{"it is ready once more", "Current", "Healthy", "True Ready"},
	{"it asks for a protection", "Failed", "Degraded", "False NotEnforced"},
	{"and does without", "InProgress", "Progressing", "False Updating"},
	{"which runs", "Current", "Healthy", "True Ready"},
	{"its finalizer is refused", "InProgress", "Progressing", "False Updating"},
	{"and new content runs", "Current", "Healthy", "True Ready"},
}

// The states are those that the operator emits over the life of one server, which a test beside it records. A sync of
// Argo CD with waves goes on from Healthy and fails at Degraded; it waits in every other state.
func TestWhatReadersMakeOfTheLifeOfAServer(t *testing.T) {
	var states []struct {
		Step   string                    `json:"step"`
		Server unstructured.Unstructured `json:"server"`
	}
	read(t, "../../controllers/mcpserver/testdata/life.yaml", &states)
	var got [][4]string
	for _, s := range states {
		is, _, err := kit.Kstatus(&s.Server)
		if err != nil {
			t.Fatal(err)
		}
		health, message := argoCD(t, s.Server.Object)
		if stalls := health == "Degraded"; stalls && message == "" {
			t.Errorf("%s: Argo CD does not tell the cause", s.Step)
		}
		if ready := strings.HasPrefix(printed(t, &s.Server), "True"); ready && is != "Current" &&
			s.Server.GetGeneration() == observed(&s.Server) {
			t.Errorf("%s: it is Ready, and kstatus says %s", s.Step, is)
		}
		got = append(got, [4]string{s.Step, string(is), health, printed(t, &s.Server)})
	}
	if diff := cmp.Diff(verdicts, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func observed(server *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(server.Object, "status", "observedGeneration")
	return n
}

// printed are Ready and Reason as the API server prints them.
func printed(t *testing.T, server *unstructured.Unstructured) string {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	read(t, "../../config/crd/freehold.dev_mcpservers.yaml", &crd)
	convertor, err := tableconvertor.New(crd.Spec.Versions[0].AdditionalPrinterColumns)
	if err != nil {
		t.Fatal(err)
	}
	table, err := convertor.ConvertToTable(t.Context(), server, &metav1.TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cells := map[string]string{}
	for i, column := range table.ColumnDefinitions {
		if cell := table.Rows[0].Cells[i]; cell != nil {
			cells[column.Name] = fmt.Sprint(cell)
		}
	}
	return cells["Ready"] + " " + cells["Reason"]
}

// argoCD judges a server by the script that we ship.
func argoCD(t *testing.T, server map[string]any) (health, message string) {
	t.Helper()
	var config corev1.ConfigMap
	read(t, "../../config/gitops/argocd-cm.yaml", &config)
	scripts := map[string]bool{}
	for _, kind := range []string{"MCPServer", "MCPRemoteProxy", "MCPOIDCConfig", "MCPAuthzConfig"} {
		scripts[config.Data["resource.customizations.health.freehold.dev_"+kind]] = true
	}
	if len(scripts) != 1 {
		t.Fatal("the kinds have several scripts, or one of them none")
	}
	return runLua(t, config.Data["resource.customizations.health.freehold.dev_MCPServer"], server)
}

// runLua runs a script in the interpreter that Argo CD uses, with the libraries that Argo CD gives it.
func runLua(t *testing.T, script string, object map[string]any) (health, message string) {
	t.Helper()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	state.SetGlobal("obj", inLua(object))
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	verdict, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returns %v", state.Get(-1))
	}
	return verdict.RawGetString("status").String(), verdict.RawGetString("message").String()
}

// inLua is a value from YAML as a script sees it.
func inLua(value any) lua.LValue {
	table := &lua.LTable{}
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			table.RawSetString(key, inLua(field))
		}
	case []any:
		for _, item := range value {
			table.Append(inLua(item))
		}
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	}
	return table
}

// A server that nobody has reported on yet is on its way.
func TestArgoCDWaitsForTheFirstReport(t *testing.T) {
	for name, server := range map[string]map[string]any{
		"no status": {"metadata": map[string]any{"generation": int64(2)}},
		"not a word": {
			"metadata": map[string]any{"generation": int64(2)},
			"status":   map[string]any{"observedGeneration": int64(2)},
		},
		"of long past": {
			"metadata": map[string]any{"generation": int64(2)},
			"status":   map[string]any{"observedGeneration": int64(1)},
		},
	} {
		if health, message := argoCD(t, server); health != "Progressing" || message != "waiting for Freehold" {
			t.Errorf("%s: it is %s, %q", name, health, message)
		}
	}
}

// An Application's health counts for the Application that made it only while it is of what its spec states now. Argo CD
// leaves what is empty out of status.sync.comparedTo, and out of a spec it takes what is not Argo CD's default.
func TestArgoCDTakesNoHealthOfAnEarlierSpec(t *testing.T) {
	var config corev1.ConfigMap
	read(t, "../../config/gitops/argocd-cm.yaml", &config)
	const (
		destination = "destination: {server: https://kubernetes.default.svc, namespace: freehold-system}"
		first       = "{repoURL: registry.example.com/charts, chart: freehold, targetRevision: 1.2.3}"
		second      = "{repoURL: registry.example.com/charts, chart: freehold, targetRevision: 1.2.4}"
		healthy     = "health: {status: Healthy}"
	)
	status := func(sync, source, rest string) string {
		return "status: {sync: {status: " + sync + ", comparedTo: {" + source + ", " + destination + "}}, " + rest + "}"
	}
	spec := func(source string) string { return "spec: {project: default, " + source + ", " + destination + "}\n" }
	values := "{repoURL: registry.example.com/charts, chart: freehold, targetRevision: 1.2.3, helm: {valuesObject: " +
		"{replicas: %s, leaderElection: {}}}}"
	for name, test := range map[string]struct{ application, want string }{
		"just made": {spec("source: " + first), "Progressing"},
		"compared, and not synced": {
			spec("source: "+first) + status("OutOfSync", "source: "+first, healthy),
			"Progressing",
		},
		"synced": {spec("source: "+first) + status("Synced", "source: "+first, healthy), "Healthy"},
		"degraded": {spec("source: "+first) +
			status("Synced", "source: "+first, "health: {status: Degraded}"), "Degraded"},
		"raised, and not compared": {
			spec("source: "+second) + status("Synced", "source: "+first, healthy),
			"Progressing",
		},
		"degraded, and raised": {spec("source: "+second) +
			status("Synced", "source: "+first, "health: {status: Degraded}"), "Progressing"},
		"raised and compared": {
			spec("source: "+second) + status("Synced", "source: "+second, healthy),
			"Healthy",
		},
		"of two sources": {spec("sources: ["+first+", "+second+"]") +
			status("Synced", "source: {repoURL: ''}, sources: ["+first+", "+second+"]", healthy), "Healthy"},
		"of two sources, one of them new": {spec("sources: ["+first+", "+second+"]") +
			status("Synced", "source: {repoURL: ''}, sources: ["+first+", "+first+"]", healthy), "Progressing"},
		"of one source more": {spec("sources: ["+first+", "+second+"]") +
			status("Synced", "source: {repoURL: ''}, sources: ["+first+"]", healthy), "Progressing"},
		"of two sources, then of one": {spec("source: "+first) +
			status("Synced", "source: {repoURL: ''}, sources: ["+first+", "+second+"]", healthy), "Progressing"},
		"of other values": {
			spec("source: "+fmt.Sprintf(values, "3")) + status("Synced", "source: "+fmt.Sprintf(values, "2"), healthy),
			"Progressing",
		},
		"with a value that was taken out": {
			spec("source: "+first) + status("Synced", "source: "+fmt.Sprintf(values, "2"), healthy), "Progressing",
		},
		"stating what is empty": {
			spec("source: {repoURL: r, path: p, targetRevision: '', directory: {recurse: false, jsonnet: {}}, helm: {}}") +
				status("Synced", "source: {repoURL: r, path: p, directory: {jsonnet: {}}}", healthy), "Healthy",
		},
		"hydrated": {
			"spec: {sourceHydrator: {drySource: {repoURL: r, path: p}, syncSource: {path: p}}, " + destination + "}\n" +
				status("Synced", "source: {repoURL: r, path: p}", healthy), "Healthy",
		},
		"elsewhere": {
			"spec: {source: " + first + ", destination: {name: prod, namespace: freehold-system}}\n" +
				status("Synced", "source: "+first, healthy), "Progressing",
		},
	} {
		var application map[string]any
		if err := yaml.Unmarshal([]byte(test.application), &application); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if is, message := runLua(t, config.Data["resource.customizations.health.argoproj.io_Application"],
			application); is != test.want {
			t.Errorf("an Application that is %s is %s (%s), want %s", name, is, message, test.want)
		}
	}
}
