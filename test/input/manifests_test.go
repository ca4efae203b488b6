package input

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// fenced is a block of YAML on a page.
var fenced = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// of others are kinds that this API server does not have, by their group. Their manifests are read as YAML only; what
// of them can be judged without their operators is judged in test/schema and test/integration.
var ofOthers = []string{
	"argoproj.io", "cert-manager.io", "external-secrets.io", "gateway.networking.k8s.io", "helm.toolkit.fluxcd.io",
	"image.toolkit.fluxcd.io",
	"kustomize.config.k8s.io", "kustomize.toolkit.fluxcd.io", "monitoring.coreos.com", "source.toolkit.fluxcd.io",
	"keda.sh",
}

// manifest is one document of YAML, and where it stands.
type manifest struct{ at, text string }

// manifests are all documents that people may copy: those of pages and recipes,
// and what the plugin prints for the objects of others.
func manifests(t *testing.T) []manifest {
	t.Helper()
	var found []manifest
	add := func(at, text string) {
		for document := range strings.SplitSeq("\n"+text, "\n---\n") {
			if strings.Contains(document, "apiVersion: ") && strings.Contains(document, "kind: ") {
				found = append(found, manifest{at, document})
			}
		}
	}
	must(t, filepath.WalkDir("../../docs", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
			add(path, block[1])
		}
		return err
	}), "reading the pages")
	for _, pattern := range []string{
		"../../cmd/kubectl-freehold/testdata/golden/import-*.yaml", "../../config/gitops/*.yaml",
		"../../config/gitops/team/base/*.yaml",
	} {
		paths, err := filepath.Glob(pattern)
		must(t, err, "finding manifests")
		if len(paths) == 0 {
			t.Errorf("there is nothing at %s", pattern)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			must(t, err, "reading a manifest")
			add(path, string(text))
		}
	}
	return found
}

// Whoever copies from a page gets what the API server takes, without a field that it prunes.
func TestTheAPIServerAcceptsWhatPagesShow(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	judged := map[string]int{}
	for _, m := range manifests(t) {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(m.text), &object.Object); err != nil {
			t.Errorf("%s: %v\n%s", m.at, err, m.text)
			continue
		}
		gvk := object.GroupVersionKind()
		if _, err := s.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); err != nil {
			if !isOfOthers(gvk.Group) {
				t.Errorf("%s: no such kind as %s: %v", m.at, gvk, err)
			}
			continue
		}
		if namespaced, err := s.Client.IsObjectNamespaced(&object); err == nil && namespaced {
			object.SetNamespace(s.Namespace)
		}
		judged[gvk.Kind]++
		err := accepts(s, &object)
		if strings.Contains(m.text, "# - the API server refuses it: ") { // as import says
			if err == nil {
				t.Errorf("%s: it is taken, and says that it is refused\n%s", m.at, m.text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", m.at, err, m.text)
		} else if gvk.Kind == "MCPServer" {
			for _, problem := range problems(t, &object) {
				t.Errorf("%s: Accepted would be False: %s: %s\n%s", m.at, problem.Field, problem.Message, m.text)
			}
		}
	}
	if judged["MCPServer"] < 8 || judged["MCPOIDCConfig"] < 4 {
		t.Errorf("only these were judged: %v", judged)
	}
}

// accepts sends an object as kubectl does, and has nothing written.
func accepts(s *kit.Env, object *unstructured.Unstructured) error {
	return s.Client.Patch(s.Ctx, object, client.Apply, client.FieldOwner("reader"), client.DryRunAll, //nolint:staticcheck // client.Apply of an apply configuration has no field validation
		client.FieldValidation(metav1.FieldValidationStrict))
}

// problems are what the condition Accepted would say of a server whose configurations exist.
func problems(t *testing.T, object *unstructured.Unstructured) []podtemplate.Problem {
	t.Helper()
	server := &v1alpha1.MCPServer{}
	must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, server),
		"decoding what the API server answered")
	server.Spec.OIDCConfigRef, server.Spec.AuthzConfigRef = nil, nil
	return workload.Render(workload.Input{Object: server},
		podtemplate.Release{RunnerImage: "freehold.dev/runner:test"}).Problems
}

func isOfOthers(group string) bool {
	for _, other := range ofOthers {
		if group == other {
			return true
		}
	}
	return false
}
