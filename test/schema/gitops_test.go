package schema

import (
	"os"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// expressions are one item of spec.healthCheckExprs of a Kustomization of Flux
// (https://fluxcd.io/flux/components/kustomize/kustomizations/#health-check-expressions).
type expressions struct {
	APIVersion, Kind, InProgress, Failed, Current string
}

func healthCheckExprs(t *testing.T) map[string]expressions {
	t.Helper()
	text, err := os.ReadFile("../../config/gitops/flux.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// A Kustomization without decryption applies Secrets as SOPS has encrypted them.
	type spec struct {
		HealthCheckExprs []expressions
		Decryption       map[string]any
	}
	var first spec
	kustomizations := 0
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var object struct {
			Kind string
			Spec spec
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if object.Kind != "Kustomization" {
			continue
		}
		if kustomizations++; kustomizations == 1 {
			first = object.Spec
		}
		if diff := cmp.Diff(first, object.Spec); diff != "" || len(first.Decryption) == 0 {
			t.Errorf("Kustomization %d of flux.yaml decrypts %v, and differs from the first (-first +this):\n%s", kustomizations,
				first.Decryption, diff)
		}
	}
	found := map[string]expressions{}
	for _, e := range first.HealthCheckExprs {
		if e.APIVersion != v1alpha1.SchemeGroupVersion.String() {
			t.Errorf("the health check of %s is for %s", e.Kind, e.APIVersion)
		}
		found[e.Kind] = e
	}
	return found
}

// judge is how Flux judges, by its RFC 9: another generation and InProgress come
// first, then Failed, then Current; what is none of them is in progress.
func (e expressions) judge(t *testing.T, object map[string]any) status.Status {
	t.Helper()
	u := unstructured.Unstructured{Object: object}
	if observed(&u) != u.GetGeneration() {
		return status.InProgressStatus
	}
	env, err := cel.NewEnv()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		text string
		is   status.Status
	}{{e.InProgress, status.InProgressStatus}, {e.Failed, status.FailedStatus}, {e.Current, status.CurrentStatus}} {
		ast, issues := env.Parse(one.text)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", one.text, issues.Err())
		}
		program, err := env.Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		value, _, err := program.Eval(object)
		if err != nil {
			t.Fatalf("%s: %v", one.text, err)
		}
		if value.Value() == true {
			return one.is
		}
	}
	return status.InProgressStatus
}

// What the expressions say is what kstatus says, in each state of a server's
// life, and every kind has them.
func TestFluxJudgesByExpressionsAsByKstatus(t *testing.T) {
	checks := healthCheckExprs(t)
	for _, kind := range []string{"MCPServer", "MCPRemoteProxy", "MCPOIDCConfig", "MCPAuthzConfig"} {
		if e, found := checks[kind]; !found || e.Current != checks["MCPServer"].Current || e.Failed == "" ||
			e.InProgress == "" {
			t.Errorf("%s has no health check like that of MCPServer: %+v", kind, e)
		}
	}
	var states []struct {
		Step   string                    `json:"step"`
		Server unstructured.Unstructured `json:"server"`
	}
	read(t, "../../controllers/mcpserver/testdata/life.yaml", &states)
	seen := map[status.Status]int{}
	for _, s := range states {
		want, _, err := kit.Kstatus(&s.Server)
		if err != nil {
			t.Fatal(err)
		}
		got := checks["MCPServer"].judge(t, s.Server.Object)
		seen[got]++
		if got != want {
			t.Errorf("%s: the expressions say %s, kstatus says %s", s.Step, got, want)
		}
	}
	if len(seen) != 3 {
		t.Errorf("only these verdicts were seen: %v", seen)
	}
	fresh := map[string]any{
		"metadata": map[string]any{"generation": int64(1)},
		"status":   map[string]any{"observedGeneration": int64(1)},
	}
	if got := checks["MCPServer"].judge(t, fresh); got != status.InProgressStatus {
		t.Errorf("a server without conditions is %s", got)
	}
}

// Kustomize finds images and names in our kinds by the configuration that we ship.
func TestKustomizeBuildsTheTeamsServers(t *testing.T) {
	for environment, want := range map[string]struct {
		tag, replicas string
	}{"dev": {":main", "<nil>"}, "staging": {":1.4.0", "<nil>"}, "prod": {":1.4.0", "2"}} {
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(),
			"../../config/gitops/team/overlays/"+environment)
		if err != nil {
			t.Fatalf("%s: %v", environment, err)
		}
		var generated string
		servers := map[string]*v1alpha1.MCPServer{}
		for _, resource := range built.Resources() {
			text, err := resource.AsYAML()
			if err != nil {
				t.Fatal(err)
			}
			switch resource.GetKind() {
			case "ConfigMap":
				generated = resource.GetName()
			case "MCPServer":
				server := &v1alpha1.MCPServer{}
				if err := yaml.UnmarshalStrict(text, server); err != nil {
					t.Fatalf("%s: %v\n%s", environment, err, text)
				}
				servers[server.Name] = server
			}
		}
		search := servers["search"]
		if len(servers) != 2 || search == nil {
			t.Fatalf("%s: there are the servers %v", environment, servers)
		}
		if from := search.Spec.EnvFrom[0].ConfigMapRef.Name; from != generated || !strings.HasPrefix(generated, "settings-") {
			t.Errorf("%s: the server reads %s, and the ConfigMap is %s", environment, from, generated)
		}
		if !strings.HasSuffix(search.Spec.Image, want.tag) || search.Namespace != "team-"+environment ||
			search.Spec.Replicas != nil {
			t.Errorf("%s: image %s in %s, %v replicas", environment, search.Spec.Image, search.Namespace, search.Spec.Replicas)
		}
		replicas := "<nil>"
		if p := search.Spec.Proxy; p != nil && p.Replicas != nil && *p.Replicas == 2 {
			replicas = "2"
		}
		if replicas != want.replicas {
			t.Errorf("%s: %s proxies, want %s", environment, replicas, want.replicas)
		}
		if search.Spec.OIDCConfigRef.Name != "team" || servers["notes"].Spec.AuthzConfigRef.Name != "team" {
			t.Errorf("%s: a server lacks what all share: %+v", environment, search.Spec)
		}
	}
}

// The marks of image automation stand where the policy says.
func TestImagePoliciesHaveAMark(t *testing.T) {
	policies, err := os.ReadFile("../../config/gitops/flux-image-automation.yaml")
	if err != nil {
		t.Fatal(err)
	}
	marked, err := os.ReadFile("../../config/gitops/team/base/search.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for document := range strings.SplitSeq(string(policies), "\n---\n") {
		var policy unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &policy.Object); err != nil {
			t.Fatal(err)
		}
		if policy.GetKind() != "ImagePolicy" {
			continue
		}
		found++
		if mark := `# {"$imagepolicy": "` + policy.GetNamespace() + ":" + policy.GetName() +
			`"}`; !strings.Contains(string(marked), mark) {
			t.Errorf("no image has the mark %s", mark)
		}
	}
	if found == 0 {
		t.Error("there is no ImagePolicy")
	}
}
