package e2e

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A server of one era of MCP", func() {
	It("serves clients of both, answers what it asks, and outlives its sessions", func(ctx SpecContext) {
		s := newStory("legacy")
		s.apply(ctx, overHTTP("")("-stateless=false"))
		url := s.ready(ctx).Status.URL
		Eventually(ctx, func() (string, error) { return way{modern: true, client: ways()[0].client}.call(ctx, url, nil) }).
			Should(Equal("answer"))
		Eventually(ctx, func() []string { return s.server(ctx).Status.Runtime.ProtocolVersions }).
			Should(ConsistOf("2025-11-25", "2026-07-28"))

		asked := ""
		client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked = r.Params.Message
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"username": "ada", "email": "ada@example.com"}},
					nil
			},
		})
		for _, revision := range []string{"2025-11-25", "2026-07-28"} {
			By("a client speaks " + revision)
			session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1},
				&mcp.ClientSessionOptions{ProtocolVersion: revision})
			Expect(err).NotTo(HaveOccurred())
			Expect(session.InitializeResult().ProtocolVersion).To(Equal(revision))
			result, err := session.CallTool(ctx,
				&mcp.CallToolParams{Name: "test_elicitation", Arguments: map[string]any{"message": "who is there?"}})
			Expect(err).NotTo(HaveOccurred())
			Expect(asked).To(Equal("who is there?"))
			Expect(fmt.Sprint(result.Content[0].(*mcp.TextContent).Text)).To(ContainSubstring("accept"))
			asked = ""
			Expect(session.Close()).To(Succeed())
		}

		By("its pod is replaced, and with it every session that the proxy held")
		s.apply(ctx, inPlace(fmt.Sprintf(`{image: %q, args: ["-http", ":8080", "-stateless=false"], restartedAt: %q}`, image,
			time.Now().UTC().Format(time.RFC3339))))
		s.ready(ctx)
		Eventually(ctx, func() (string, error) { return way{modern: true, client: ways()[0].client}.call(ctx, url, nil) }).
			Should(Equal("answer"))
	}, SpecTimeout(10*time.Minute))
})
