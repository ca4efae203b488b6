package gitops

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/test/kit"
)

// install applies the CRDs and settings of a folder that build.sh fills, and waits until the API server serves their
// kinds.
func install(s *kit.Env, folder string) {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(bin, "manifests", folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		s.Fatalf("%s has no manifests of %s: run hack/gitops/build.sh: %v", bin, folder, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		s.Must(err, "reading "+file)
		object := s.Force("kubectl", string(text))
		if object.GroupVersionKind() == kindCRD {
			served(s, object)
		}
	}
}

// served waits until objects of a CRD can be listed, which is some time after it says Established.
func served(s *kit.Env, crd *unstructured.Unstructured) {
	s.Helper()
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(crd.Object, append([]string{"spec"}, path...)...)
		return value
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	s.Must(err, "reading the versions of "+crd.GetName())
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(text("group") + "/" + versions[0].(map[string]any)["name"].(string)) //nolint:forcetypeassert // as the API server holds
	list.SetKind(text("names", "listKind"))
	for end := time.Now().Add(s.Patience); ; time.Sleep(100 * time.Millisecond) {
		if err = s.Client.List(s.Ctx, list); err == nil {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("the API server does not serve %s: %v", crd.GetName(), err)
		}
	}
}

// TestRecipesKeepTheirSchemas: the API server takes each object of the recipes whose controllers are not built here, by
// the CRDs of their projects, in a dry run; it does not take a field that they do not have.
func TestRecipesKeepTheirSchemas(t *testing.T) {
	s := newEnv(t, fluxSystem)
	s.Force("admin", "{apiVersion: v1, kind: Namespace, metadata: {name: "+fluxSystem+"}}")
	for _, folder := range []string{"images", "secrets", "source"} {
		install(s, folder)
	}
	for _, recipe := range []string{"flux-image-automation.yaml", "flux-operator.yaml", "external-secret.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, "config", "gitops", recipe))
		s.Must(err, "reading a recipe")
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			if _, err := s.ApplyErr("kubectl", document, client.DryRunAll); err != nil {
				t.Errorf("%s: %v\n%s", recipe, err, document)
			}
			wrong := strings.Replace(document, "\nspec:\n", "\nspec:\n  unknown: {}\n", 1)
			if _, err := s.ApplyErr("kubectl", wrong, client.DryRunAll); err == nil ||
				!strings.Contains(err.Error(), "unknown") {
				t.Errorf("%s: the API server says %v of a field that is none:\n%s", recipe, err, wrong)
			}
		}
	}
}
