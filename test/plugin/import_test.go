package plugin

import (
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// theirKind is a CRD as kmcp's, which keeps all fields.
const theirKind = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: mcpservers.kagent.dev}
spec:
  group: kagent.dev
  scope: Namespaced
  names: {kind: MCPServer, listKind: MCPServerList, plural: mcpservers, singular: mcpserver}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const theirServer = `
apiVersion: kagent.dev/v1alpha1
kind: MCPServer
metadata: {name: NAME}
spec: {transportType: http, timeout: 30s, deployment: {image: "registry.example.com/echo:1", port: 3000}}
`

// A kind of the same name is in two groups. What is read from the cluster can be
// applied as it is printed, and becomes a server beside the other one.
func TestImportReadsTheCluster(t *testing.T) {
	s := tell(t)
	s.Must(apiextensionsv1.AddToScheme(s.Scheme), "adding the kind of CRDs")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	s.Must(yaml.Unmarshal([]byte(theirKind), crd), "reading a CRD")
	s.Must(s.Client.Create(s.Ctx, crd), "creating a kind of others")
	for _, name := range []string{"one", "two"} {
		text := strings.Replace(theirServer, "NAME", name, 1)
		// The API server serves a new kind some time after it took the CRD.
		_, err := s.ApplyErr("kmcp", text)
		for end := time.Now().Add(s.Patience); err != nil && time.Now().Before(end); _, err = s.ApplyErr("kmcp", text) {
			time.Sleep(50 * time.Millisecond)
		}
		s.Must(err, "applying a server of kmcp")
	}
	answer := s.asks("", "import", "--images=never", "mcpservers.kagent.dev")
	if answer.code != 0 || strings.Count(answer.out, "\n# From MCPServer "+s.Namespace+"/") != 2 ||
		!strings.Contains(answer.out, `# - spec.timeout: "30s" -- `) {
		t.Fatalf("%d: %s\n%s", answer.code, answer.out, answer.err)
	}
	for document := range strings.SplitSeq(answer.out, "---\n") {
		if document != "" {
			s.Apply("git", document)
		}
	}
	server := &v1alpha1.MCPServer{}
	server.Name = "two"
	s.Read(server)
	if server.Spec.Port != 3000 || server.Spec.Image != "registry.example.com/echo:1" {
		t.Errorf("the server has the spec %+v", server.Spec)
	}
	theirs := &unstructured.Unstructured{}
	theirs.SetAPIVersion("kagent.dev/v1alpha1")
	theirs.SetKind("MCPServer")
	theirs.SetName("two")
	s.Read(theirs)
	if managers := theirs.GetManagedFields(); len(managers) != 1 || managers[0].Manager != "kmcp" {
		t.Errorf("somebody wrote to the other server: %v", managers)
	}
}
