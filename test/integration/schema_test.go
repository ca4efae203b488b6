package integration

import (
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Everything that a schema can refuse is refused at admission, with a message
// that says what to write instead. A row is the server, and what its writer
// reads: the field and the message, whole.
var _ = DescribeTable("An MCPServer is refused with advice:",
	func(text, field, message string) {
		s := onStage()
		_, err := s.ApplyErr("kubectl", text)
		Expect(err).To(HaveOccurred(), "it was accepted:\n%s", text)
		causes := causesOf(err)
		Expect(causes).To(ContainElement(And(HavePrefix(field+": "), HaveSuffix(message))), "the answer was: %v", err)
	},
	Entry("without an image", serverSpec(`{"args":["a"]}`), "spec.image", "Required value"),
	Entry("with an empty image", spec(`"image":""`), "spec.image", "should be at least 1 chars long"),
	Entry("with template marks in the image", spec(`"image":"{{ .Values.image }}"`), "spec.image",
		"image must be an image reference without spaces or template marks: write for example registry.example.com/team/server:1.2.3"),
	Entry("with a space in the image", spec(`"image":"a b"`), "spec.image",
		"image must be an image reference without spaces or template marks: write for example registry.example.com/team/server:1.2.3"),
	Entry("with a name longer than its children can bear", named(strings.Repeat("a", 45)), "<nil>",
		"the name must have at most 44 characters, so that the names of its StatefulSet and Services fit: choose a shorter one"),
	Entry("with a name that begins with a digit", named("1st"), "<nil>",
		"the name must begin with a lower-case letter and hold only lower-case letters, digits and -: write for example team-echo"),
	Entry("with a dot in its name", named("echo.v1"), "<nil>",
		"the name must begin with a lower-case letter and hold only lower-case letters, digits and -: write for example team-echo"),
	Entry("with an unknown transport", more(`"transport":"websocket"`), "spec.transport",
		`Unsupported value: "websocket": supported values: "streamable-http", "sse", "stdio"`),
	Entry("on stdio without a command", more(`"transport":"stdio"`), "spec",
		`transport stdio needs command: write the program that speaks MCP on its standard input and output, for example command: ["/server"]`),
	Entry("on stdio with an empty command", more(`"transport":"stdio","command":[]`), "spec",
		`transport stdio needs command: write the program that speaks MCP on its standard input and output, for example command: ["/server"]`),
	Entry("with port 0", more(`"port":0`), "spec.port", "should be greater than or equal to 1"),
	Entry("with a port that does not exist", more(`"port":65536`), "spec.port", "should be less than or equal to 65535"),
	Entry("with a proxy port that needs root", more(`"proxy":{"port":80}`), "spec.proxy.port", "should be greater than or equal to 1024"),
	Entry("with the probes' port as proxy port", more(`"proxy":{"port":9440}`), "spec.proxy.port",
		"port 9440 is where the proxy answers probes: choose another port"),
	Entry("with one port for both", more(`"port":8000`), "spec",
		"port and proxy.port must differ: port is where the image listens, proxy.port is where clients call"),
	Entry("with a path that is none", more(`"path":"mcp"`), "spec.path",
		"path must begin with / and hold only letters, digits and . _ ~ / -: write for example /mcp"),
	Entry("with fewer than no replicas", more(`"replicas":-1`), "spec.replicas", "should be greater than or equal to 0"),
	Entry("with a bad limit", more(`"resources":{"limits":{"memory":"1GB"}}`), "spec.resources",
		"limits must be Kubernetes quantities: write cpu as 500m or 2, memory as 128Mi or 1Gi"),
	Entry("with a bad request", more(`"resources":{"requests":{"cpu":"half"}}`), "spec.resources",
		"requests must be Kubernetes quantities: write cpu as 500m or 2, memory as 128Mi or 1Gi"),
	Entry("with a bad limit of the proxy", more(`"proxy":{"resources":{"limits":{"memory":"much"}}}`), "spec.proxy.resources",
		"limits must be Kubernetes quantities: write cpu as 500m or 2, memory as 128Mi or 1Gi"),
	Entry("with both kinds of authorization", more(`"authzConfig":{"policies":["permit(principal,action,resource);"]},"authzConfigRef":{"name":"a"}`), "spec",
		"authzConfig and authzConfigRef exclude each other: keep one of them"),
	Entry("with an authorization of nothing", more(`"authzConfig":{"policies":[]}`), "spec.authzConfig.policies", "should have at least 1 items"),
	Entry("with value and valueFrom in one variable", more(`"env":[{"name":"A","value":"b","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]`), "spec",
		"an env item has either value or valueFrom: remove one of them"),
	Entry("with one variable twice", more(`"env":[{"name":"A","value":"a"},{"name":"A","value":"b"}]`), "", `duplicate entries for key [name="A"]`),
	Entry("with a hostPath volume", more(`"volumes":[{"name":"v","hostPath":{"path":"/"}}]`), "spec.volumes",
		"hostPath volumes are not allowed: use a persistentVolumeClaim, emptyDir, configMap or secret"),
	Entry("with a public URL that is none", more(`"proxy":{"publicURL":"mcp.example.com"}`), "spec.proxy.publicURL",
		"publicURL must be an absolute URL: write for example https://mcp.example.com/echo"),
	Entry("with a public URL of another kind", more(`"proxy":{"publicURL":"ftp://mcp.example.com"}`), "spec.proxy.publicURL",
		"publicURL must be an absolute URL: write for example https://mcp.example.com/echo"),
	Entry("with an unknown field", more(`"imgae":"x"`), "", ".spec.imgae: field not declared in schema"),
	Entry("with an unknown Service type", more(`"proxy":{"service":{"type":"ExternalName"}}`), "spec.proxy.service.type",
		`Unsupported value: "ExternalName": supported values: "ClusterIP", "NodePort", "LoadBalancer"`),
	Entry("with a reference to nothing", more(`"groupRef":{"name":""}`), "spec.groupRef.name", "should be at least 1 chars long"),
	Entry("with a restart that is no time", more(`"restartedAt":"now"`), "spec.restartedAt", `must be of type date-time: "now"`),
)

var _ = Describe("An MCPServer is accepted", func() {
	It("with nothing but an image, and gets the defaults that a reader needs", func() {
		s := onStage()
		live := s.Apply("kubectl", more(`"args":["a"]`))
		Expect(live.Object["spec"]).To(Equal(map[string]any{
			"image": "registry.example.com/echo:1", "args": []any{"a"},
			"transport": "streamable-http", "port": int64(8080), "path": "/mcp", "replicas": int64(1),
			"proxy": map[string]any{"replicas": int64(1), "port": int64(8000)},
		}))
	})

	It("with the longest name that its children can bear", func() {
		s := onStage()
		s.Apply("kubectl", named(strings.Repeat("a", 44)))
	})

	It("with numbers and texts as quantities", func() {
		s := onStage()
		s.Apply("kubectl", more(`"resources":{"limits":{"cpu":1,"memory":"1.5Gi"},"requests":{"cpu":"100m"}}`))
	})
})

func more(fields string) string { return spec(`"image":"registry.example.com/echo:1",` + fields) }

func spec(fields string) string { return serverSpec("{" + fields + "}") }

func serverSpec(spec string) string {
	return fmt.Sprintf(`{"apiVersion":"freehold.dev/v1alpha1","kind":"MCPServer","metadata":{"name":"echo"},"spec":%s}`, spec)
}

func named(name string) string {
	return fmt.Sprintf(`{"apiVersion":"freehold.dev/v1alpha1","kind":"MCPServer","metadata":{"name":%q},"spec":{"image":"i"}}`, name)
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
