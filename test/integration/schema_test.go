package integration

import (
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// What is refused, and in which words, is in test/input.
var _ = Describe("An MCPServer is accepted", func() {
	It("with nothing but an image, and gets the defaults that a reader needs", func() {
		s := newEnv()
		live := s.Apply("kubectl", more(`"args":["a"]`))
		Expect(live.Object["spec"]).To(Equal(map[string]any{
			"image": "registry.example.com/echo:1", "args": []any{"a"},
			"transport": "streamable-http", "port": int64(8080), "path": "/mcp", "replicas": int64(1),
			"progressDeadlineSeconds": int64(600),
			"proxy": map[string]any{
				"port": int64(8000), "audit": "Enabled",
				"terminationGracePeriodSeconds": int64(60),
			},
		}))
	})
})

func more(fields string) string { return spec(`"image":"registry.example.com/echo:1",` + fields) }

func spec(fields string) string { return serverSpec("{" + fields + "}") }

func serverSpec(spec string) string {
	return fmt.Sprintf(`{"apiVersion":"freehold.dev/v1alpha1","kind":"MCPServer","metadata":{"name":"echo"},"spec":%s}`,
		spec)
}

// causesOf are the field and message of each cause of a refusal; a refusal
// without causes, as a typed conversion gives, is one without a field.
func causesOf(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []string{": " + err.Error()}
	}
	var causes []string
	for _, cause := range status.Status().Details.Causes {
		causes = append(causes, cause.Field+": "+cause.Message)
	}
	return causes
}
