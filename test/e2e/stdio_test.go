package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	neturl "net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
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
func connect(
	ctx context.Context, transport mcp.Transport, revision string, options *mcp.ClientOptions,
) *mcp.ClientSession {
	GinkgoHelper()
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, options)
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	Expect(err).NotTo(HaveOccurred())
	return session
}

var _ = It("A server on standard input and output serves clients of both eras, each session with a process of its own",
	func(ctx SpecContext) {
		s := newStory("stdio")
		s.apply(ctx, stdioSpec(`, podTemplate: {spec: {containers: [{name: server, `+
			`securityContext: {runAsUser: 4242, readOnlyRootFilesystem: true}}]}}`))
		url := s.ready(ctx).Status.URL
		Expect(s.server(ctx).Status.Runtime.ProtocolVersions).To(ContainElements("2025-11-25", "2026-07-28"))

		By("it has a place to write, which its image has not")
		said, err := logs.Pods(s.namespace).GetLogs(workload.BackendName(s.name)+"-0",
			&corev1.PodLogOptions{Container: podtemplate.ServerContainer}).DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(said)).To(ContainSubstring("HOME and TMPDIR: it gets /freehold-scratch"))

		By("whoever calls it past its proxies is refused, on any network: no NetworkPolicy stands before it")
		pod := s.pods(ctx, backend)[0].Status.PodIP
		for _, at := range []string{pod + ":8080", workload.BackendName(s.name) + "." + s.namespace + ".svc:8080"} {
			for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
				r, err := http.NewRequestWithContext(ctx, method, "http://"+at+"/mcp", strings.NewReader(
					`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_simple_text"}}`))
				Expect(err).NotTo(HaveOccurred())
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Freehold-Proxy", "made-up")
				response, err := http.DefaultClient.Do(r)
				Expect(err).NotTo(HaveOccurred(), at)
				said, err := io.ReadAll(response.Body)
				Expect(err).NotTo(HaveOccurred())
				Expect(response.Body.Close()).To(Succeed())
				Expect(response.StatusCode).To(Equal(http.StatusMisdirectedRequest), "%s %s", method, at)
				Expect(string(said)).To(ContainSubstring("NotAProxy"))
			}
		}

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
		_, err = session.CallTool(ctx,
			&mcp.CallToolParams{Name: "test_sampling", Arguments: map[string]any{"prompt": "well?"}})
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
	s.apply(ctx, fmt.Sprintf(`{image: %q, transport: stdio, command: [/everything-server, -help], proxy: {replicas: 1}}`,
		image))
	Eventually(ctx, func(g Gomega) {
		c := meta.FindStatusCondition(s.server(ctx).Status.Conditions, v1alpha1.ConditionReady)
		g.Expect(c).NotTo(BeNil())
		g.Expect(c.Reason).To(Equal(v1alpha1.ReasonCrashLoop), c.Message)
		g.Expect(c.Message).To(ContainSubstring("the server ended before it answered"))
	}).Should(Succeed())
})

var _ = It("Servers of the transport before streamable HTTP, here and elsewhere, serve clients of both transports "+
	"and eras at each proxy", func(ctx SpecContext) {
	s := newStory("old")
	s.apply(ctx,
		fmt.Sprintf(
			`{image: %q, transport: sse, args: ["-host", "0.0.0.0", "-port", "8080"], path: /greeter1, replicas: 2, proxy: {replicas: 2}}`, sseImage))
	url := s.ready(ctx).Status.URL
	Expect(s.server(ctx).Status.Runtime.Tools).To(HaveValue(BeEquivalentTo(1)))
	s.settled(ctx, proxy, 2)
	s.settled(ctx, backend, 2)
	s.greets(ctx, url)

	By("calling one of its pods as a server elsewhere")
	s.applyAll(ctx, fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: elsewhere}\nspec: {selector: "+
		"{statefulset.kubernetes.io/pod-name: %s-0}, ports: [{port: 8080}]}", workload.BackendName(s.name)))
	service := &corev1.Service{}
	Expect(cluster.Get(ctx, s.key("elsewhere"), service)).To(Succeed())
	s.applyAll(ctx, fmt.Sprintf("apiVersion: freehold.dev/v1alpha1\nkind: MCPRemoteProxy\nmetadata: {name: %s}\nspec: "+
		"{url: 'http://elsewhere.%s.svc:8080/greeter1', "+
		"allowHTTP: true, transport: sse, allowedNetworks: [%s/32], proxy: {replicas: 2}}", s.name, s.namespace,
		service.Spec.ClusterIP))
	live := s.remoteSays(ctx, v1alpha1.ReasonReady)
	Eventually(ctx, func(g Gomega) {
		deployment := &appsv1.Deployment{}
		g.Expect(cluster.Get(ctx, s.key(workload.ProxyName(s.name+".remote")), deployment)).To(Succeed())
		g.Expect(deployment.Status.ReadyReplicas).To(BeEquivalentTo(2))
	}).Should(Succeed())
	s.greets(ctx, live.Status.URL)
})

// greets calls a server of both transports and eras, often enough that each proxy gets
// requests of sessions that another one, or another pod, has: connections are spread.
func (s story) greets(ctx context.Context, url string) {
	GinkgoHelper()
	at, err := neturl.Parse(url)
	Expect(err).NotTo(HaveOccurred())
	// Each connection is a new one, and none waits for cluster DNS: the SDK gives a session five seconds to end.
	addresses, err := net.DefaultResolver.LookupHost(ctx, at.Hostname())
	Expect(err).NotTo(HaveOccurred())
	place := net.JoinHostPort(addresses[0], at.Port())
	fresh := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, place)
		},
	}}
	for _, client := range []struct {
		revision  string
		transport func() mcp.Transport
	}{
		{"2026-07-28", func() mcp.Transport { return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: fresh} }},
		{"2025-06-18", func() mcp.Transport { return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: fresh} }},
		{"2024-11-05", func() mcp.Transport { return &mcp.SSEClientTransport{Endpoint: url, HTTPClient: fresh} }},
	} {
		for range 3 {
			session := connect(ctx, client.transport(), client.revision, nil)
			for range 4 {
				result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "greet1", Arguments: map[string]any{"name": "Ada"}})
				Expect(err).NotTo(HaveOccurred(), client.revision)
				Expect(result.Content[0].(*mcp.TextContent).Text).To(ContainSubstring("Ada"))
			}
			Expect(session.Close()).To(Succeed())
		}
	}
}
