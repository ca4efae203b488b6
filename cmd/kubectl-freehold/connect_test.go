package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/clients"
	"github.com/freehold-dev/freehold/test/golden"
)

// connectable are a server with its login, as the API server shows them.
func connectable(t *testing.T, public, ref, login string) *reached {
	t.Helper()
	u := fromYAML(t, fmt.Sprintf(`{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: everything,
		namespace: tools}, spec: {image: a, %s}, status: {observedGeneration: 1,
		url: "http://everything-proxy.tools.svc:8000/mcp", %s conditions: [%s]}}`, ref, public,
		is("Ready", "True", "Ready", "MCP answers")))
	r, err := reachedOf(u)
	if err == nil && login != "" {
		err = r.AcceptTokensOf(fromYAML(t, "{kind: MCPOIDCConfig, spec: {"+login+"}}"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	published = `publicURL: "https://mcp.example.com/it's/mcp",`
	provider  = `oidc: {issuer: "https://login.example.com/realms/team"}`
	accounts  = `kubernetes: {serviceAccounts: [{namespace: agents, name: planner}]}`
	ref       = `oidcConfigRef: {name: company}`
)

func TestWhatConnectPrints(t *testing.T) {
	claude, _ := clients.Named("claude-code")
	for _, tc := range []struct {
		golden   string
		reached  *reached
		clientID string
		port     int
		clients  []clients.Client
	}{
		{"inside", connectable(t, "", "", ""), "", 0, []clients.Client{claude}},
		{"forwarded", connectable(t, "", ref, provider), "", 20000, []clients.Client{claude}},
		{"public", connectable(t, published, "", ""), "", 0, clients.All},
		{"login", connectable(t, published, ref, provider), "", 0, []clients.Client{claude}},
		{"client-id", connectable(t, published, ref, provider), "0oa1b2c3", 0, clients.All},
		{"accounts", connectable(t, published, ref, accounts), "", 0, clients.All},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			var out strings.Builder
			c := sit("")
			c.Out = &out
			e, err := tc.reached.Endpoint(tc.clientID, tc.port)
			if err != nil {
				t.Fatal(err)
			}
			for _, client := range tc.clients {
				if err := c.printClient(tc.reached, client, e, ""); err != nil {
					t.Fatal(err)
				}
			}
			golden.File(t, "testdata/golden/connect-"+tc.golden, out.String())
		})
	}
}

// A server that does not answer is told with the reason, and nothing to run.
func TestConnectSaysWhyNotYet(t *testing.T) {
	for _, tc := range []struct{ conditions, says string }{
		{"", "no operator has reported"},
		{is("Ready", "False", "ImagePull", "correct spec.image"), "is not ready: ImagePull: correct spec.image"},
		{is("Suspended", "True", "Suspended", ""), "is suspended"},
		{is("Ready", "False", "RolloutHeld", "x") + ", " + is("Available", "True", "Available", ""), ""},
	} {
		u := reports(t, "MCPServer", "tools", "everything", tc.conditions)
		r, err := reachedOf(u)
		if err != nil {
			t.Fatal(err)
		}
		if ready, why := r.ready(); ready != (tc.says == "") || !strings.Contains(why, tc.says) {
			t.Errorf("%s: ready %t, %q", tc.conditions, ready, why)
		}
	}
}

// A Gateway that refuses the route is told: the URL would lead nowhere.
func TestConnectSaysWhyNotPublished(t *testing.T) {
	for conditions, want := range map[string]string{
		"": "",
		is("Published", "True", "RouteTaken", ""):                    "",
		is("Published", "Unknown", "RouteNotTaken", ""):              "",
		is("Published", "False", "RouteRefused", "no listener"):      "not published: RouteRefused: no listener. Until",
		is("Published", "False", "HTTPRouteNotServed", "install it"): "not published: HTTPRouteNotServed: install it",
	} {
		r, err := reachedOf(reports(t, "MCPServer", "tools", "everything", conditions))
		if err != nil {
			t.Fatal(err)
		}
		if published, why := r.published(); published != (want == "") || !strings.Contains(why, want) {
			t.Errorf("%s: published %t, %q", conditions, published, why)
		}
	}
}

// Where the spec names the public URL, another way than the HTTPRoute may lead there: what is known of that is a line.
func TestConnectSaysWhatIsKnownOfThePublicURL(t *testing.T) {
	for conditions, want := range map[string]string{
		is("Published", "True", "RouteTaken", ""):               "",
		is("Published", "Unknown", "RouteNotTaken", "wait."):    "Calls may not arrive there: RouteNotTaken: wait.",
		is("Published", "False", "RouteRefused", "no listener"): "Calls may not arrive there: RouteRefused: no listener.",
	} {
		r, err := reachedOf(fromYAML(t, fmt.Sprintf(`{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: a},
			spec: {proxy: {publicURL: "https://mcp.example.com", httpRoute: {}}}, status: {conditions: [%s]}}`, conditions)))
		if err != nil {
			t.Fatal(err)
		}
		if published, why := r.published(); !published {
			t.Errorf("%s: %s", conditions, why)
		}
		for _, port := range []int{0, 20000} {
			e, err := r.Endpoint("", port)
			if err != nil {
				t.Fatal(err)
			}
			said := strings.Join(r.state(clients.All[0], e), "\n")
			if told := strings.Contains(said, "Calls may not arrive"); told != (want != "" && port == 0) ||
				told && !strings.Contains(said, want) {
				t.Errorf("%s, port %d: got %s", conditions, port, said)
			}
		}
	}
}
