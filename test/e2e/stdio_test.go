package e2e

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// stdioSpec is a server that speaks on its standard input and output: the SDK's does
// where it is not told to listen.
func stdioSpec(more string) string {
	return fmt.Sprintf(`{image: %q, transport: stdio, command: [/everything-server], proxy: {replicas: 1}%s}`, image, more)
}

// sseImage is a server of the deprecated transport HTTP+SSE.
var sseImage = "freehold.dev/sse-server:" + version()

// connect is a client of the SDK's, of the newest revision or of another.
func connect(ctx context.Context, transport mcp.Transport, revision string, options *mcp.ClientOptions) *mcp.ClientSession {
	GinkgoHelper()
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, options)
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	Expect(err).NotTo(HaveOccurred())
	return session
}

var _ = It("A server on standard input and output serves clients of both eras, each session with a process of its own", func(ctx SpecContext) {
	s := newStory("stdio")
	s.apply(ctx, stdioSpec(``))
	url := s.ready(ctx).Status.URL
	Expect(s.server(ctx).Status.Runtime.ProtocolVersions).To(ContainElements("2025-11-25", "2026-07-28"))

	By("clients of both eras list and call its tools")
	for _, revision := range []string{"2026-07-28", "2025-11-25", "2025-03-26"} {
		session := connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, revision, nil)
		tools, err := session.ListTools(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(len(tools.Tools)).To(BeNumerically(">", 5))
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "test_simple_text"})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.IsError).To(BeFalse())
		Expect(session.Close()).To(Succeed())
	}

	By("the server asks a client, whose session it is alone with")
	asked := 0
	session := connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, "2025-11-25", &mcp.ClientOptions{
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) { //nolint:staticcheck // deprecated, and in use
			asked++
			return &mcp.CreateMessageResult{Model: "none", Role: "assistant", Content: &mcp.TextContent{Text: "yes"}}, nil //nolint:staticcheck // as above
		},
	})
	_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "test_sampling", Arguments: map[string]any{"prompt": "well?"}})
	Expect(err).NotTo(HaveOccurred())
	Expect(asked).To(Equal(1))
	Expect(session.Close()).To(Succeed())

	By("clients of the transport before it do, at the same endpoint")
	old := connect(ctx, &mcp.SSEClientTransport{Endpoint: url}, "2024-11-05", nil)
	_, err = old.CallTool(ctx, &mcp.CallToolParams{Name: "test_simple_text"})
	Expect(err).NotTo(HaveOccurred())
	Expect(old.Close()).To(Succeed())
})

var _ = It("A server on standard input and output that ends at once is told with its own words", func(ctx SpecContext) {
	s := newStory("ends")
	s.apply(ctx, fmt.Sprintf(`{image: %q, transport: stdio, command: [/everything-server, -help], proxy: {replicas: 1}}`, image))
	Eventually(ctx, func(g Gomega) {
		c := meta.FindStatusCondition(s.server(ctx).Status.Conditions, v1alpha1.ConditionReady)
		g.Expect(c).NotTo(BeNil())
		g.Expect(c.Reason).To(Equal(v1alpha1.ReasonCrashLoop), c.Message)
		g.Expect(c.Message).To(ContainSubstring("the server ended before it answered"))
	}).Should(Succeed())
})

var _ = It("A server of the transport before streamable HTTP serves clients of both transports and eras", func(ctx SpecContext) {
	s := newStory("old")
	s.apply(ctx, fmt.Sprintf(`{image: %q, transport: sse, args: ["-host", "0.0.0.0", "-port", "8080"], path: /greeter1, proxy: {replicas: 1}}`, sseImage))
	url := s.ready(ctx).Status.URL
	Expect(*s.server(ctx).Status.Runtime.Tools).To(BeEquivalentTo(1))
	for _, client := range []struct {
		revision  string
		transport mcp.Transport
	}{
		{"2026-07-28", &mcp.StreamableClientTransport{Endpoint: url}},
		{"2025-06-18", &mcp.StreamableClientTransport{Endpoint: url}},
		{"2024-11-05", &mcp.SSEClientTransport{Endpoint: url}},
	} {
		session := connect(ctx, client.transport, client.revision, nil)
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "greet1", Arguments: map[string]any{"name": "Ada"}})
		Expect(err).NotTo(HaveOccurred(), client.revision)
		Expect(result.Content[0].(*mcp.TextContent).Text).To(ContainSubstring("Ada"))
		Expect(session.Close()).To(Succeed())
	}
})

var _ = It("A release leaves the pods of a server on standard input and output, and their sessions", func(ctx SpecContext) {
	s := newStory("kept")
	s.apply(ctx, stdioSpec(``))
	url := s.ready(ctx).Status.URL
	session := openSession(ctx, url)
	before := s.pods(ctx, workload.ComponentBackend)
	runWith(ctx, runnerImage+"-again")
	DeferCleanup(func(ctx SpecContext) { runWith(ctx, runnerImage) })
	Eventually(ctx, func(g Gomega) {
		for _, pod := range s.pods(ctx, workload.ComponentProxy) {
			g.Expect(pod.Spec.Containers[0].Image).To(HaveSuffix("-again"))
		}
	}).Should(Succeed())
	s.ready(ctx)
	after := s.pods(ctx, workload.ComponentBackend)
	Expect(after).To(HaveLen(1))
	Expect(after[0].UID).To(Equal(before[0].UID))
	Expect(session.call(ctx)).To(ContainSubstring("result"))
})
