package conversion

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// the objects of a run, of ToolHive and in one namespace.
const (
	askedFor = "kind: MCPServer\nmetadata: {name: byref}\nspec: {image: a, transport: streamable-http, authzConfigRef: " +
		"{name: company}, oidcConfigRef: {name: login, audience: a}}"
	open   = "kind: MCPServer\nmetadata: {name: open}\nspec: {image: a, transport: streamable-http}"
	issued = "kind: MCPOIDCConfig\nmetadata: {name: login}\nspec: {type: inline, inline: {issuer: " +
		"'https://login.example.com'}}"
)

// company is an MCPAuthzConfig with more in its config than policies.
func company(more string) string {
	return "kind: MCPAuthzConfig\nmetadata: {name: company}\nspec: {type: cedarv1, config: {policies: " +
		"['permit(principal, action, resource);'], " + more + "}}"
}

// together converts objects, and returns them by kind and name, with all that was said.
func together(t *testing.T, objects ...string) (made map[string]map[string]any, said string) {
	t.Helper()
	var sources []*unstructured.Unstructured
	for _, object := range objects {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte("apiVersion: toolhive.stacklok.dev/v1beta1\n"+object), &u.Object); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, u)
	}
	made = map[string]map[string]any{}
	for _, outcome := range Run(t.Context(), sources, Options{}) {
		if outcome.Err != nil {
			t.Fatal(outcome.Err)
		}
		for _, result := range outcome.Results {
			name, _ := get(result.Object, "metadata.name")
			made[fmt.Sprint(result.Object["kind"], "/", name)] = result.Object
			said += strings.Join(result.Remarks, "\n") + "\n"
		}
	}
	return made, said
}

// A configuration that loses what kept callers out lets nobody in: the servers that name it are suspended, or it is
// refused.
func TestWhatAConfigurationLosesItsServersLose(t *testing.T) {
	elsewhere := strings.Replace(askedFor, "{name: byref}", "{name: there, namespace: other}", 1)
	alsoNamed := "kind: MCPServer\nmetadata: {name: other}\nspec: {image: a, transport: streamable-http, authzConfig: " +
		"{type: inline, inline: {policies: ['permit(principal, action, resource);']}}, oidcConfigRef: {name: login, " +
		"audience: a}}"
	tokens := "kind: MCPOIDCConfig\nmetadata: {name: login}\nspec: {type: kubernetesServiceAccount, " +
		"kubernetesServiceAccount: {serviceAccount: a}}"
	for name, tc := range map[string]struct {
		objects   []string
		suspended []string // servers
		withheld  bool     // the configuration has no spec
		claim     string   // oidc.groupsClaim
	}{
		"nothing": {[]string{company(""), askedFor, issued, open}, nil, false, "groups"},
		"the default claim": {
			[]string{company("group_claim_name: groups"), askedFor, issued},
			nil, false,
			"groups",
		},
		"the claim, with the login": {
			[]string{company("group_claim_name: teams"), askedFor, issued, open},
			nil,
			false, "teams",
		},
		"the claim, in another order": {
			[]string{open, issued, askedFor, company("group_claim_name: teams")},
			nil,
			false, "teams",
		},
		"the claim, without the login": {
			[]string{company("group_claim_name: teams"), askedFor},
			[]string{"byref"},
			false, "",
		},
		"the claim, with a login of accounts": {
			[]string{company("group_claim_name: teams"), askedFor, tokens},
			[]string{"byref"},
			false, "",
		},
		"the claim, where another has groups": {
			[]string{company("group_claim_name: teams"), askedFor, issued, alsoNamed},
			[]string{"byref"},
			false, "groups",
		},
		"the claim, for nobody": {[]string{company("group_claim_name: teams"), issued, open}, nil, true, "groups"},
		"roles": {
			[]string{company("role_claim_name: roles"), askedFor, issued, open},
			[]string{"byref"},
			false, "groups",
		},
		"roles, for nobody": {[]string{company("role_claim_name: roles")}, nil, true, ""},
		"roles, for another namespace": {
			[]string{strings.Replace(company("role_claim_name: roles"), "{name: company}", "{name: company, namespace: tools}",
				1), elsewhere}, nil, true, "",
		},
		"types of groups": {[]string{company("group_entity_type: Team"), askedFor}, []string{"byref"}, false, ""},
		"the usual type":  {[]string{company("group_entity_type: THVGroup"), askedFor}, nil, false, ""},
		"another provider's claims": {
			[]string{company("primary_upstream_provider: okta"), askedFor},
			[]string{"byref"},
			false, "",
		},
		"a field of a newer version": {[]string{company("denied_networks: [a]"), askedFor}, []string{"byref"}, false, ""},
		"a newer field of a login": {[]string{
			company(""), askedFor, strings.Replace(issued, "inline: {", "inline: {requiredClaims: [a], ", 1), open,
		}, []string{"byref"}, false, "groups"},
		"a newer field of a login, for nobody": {
			[]string{strings.Replace(issued, "inline: {", "inline: {requiredClaims: [a], ", 1), open}, nil, true, "",
		},
		"roles, for whoever is applied there": {
			[]string{company("role_claim_name: roles"), elsewhere, askedFor},
			[]string{"byref", "there"},
			false, "",
		},
		"roles said to be in no claim": {[]string{company("role_claim_name: ''"), askedFor}, nil, false, ""},
		"a newer field of a server": {
			[]string{strings.Replace(open, "image: a", "image: a, callerAuthConfigRef: {name: idp}", 1), askedFor},
			[]string{"open"},
			false, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			made, said := together(t, tc.objects...)
			for key, object := range made {
				spec, _ := object["spec"].(map[string]any)
				kind, server, _ := strings.Cut(key, "/")
				if suspended := spec["suspend"] == true; suspended != slices.Contains(tc.suspended, server) {
					t.Errorf("%s is suspended: %t\n%s", key, suspended, said)
				}
				if kind != "MCPServer" && len(spec) == 0 && !tc.withheld {
					t.Errorf("%s has no spec\n%s", key, said)
				}
			}
			if withheld := strings.Contains(said,
				"spec is left out, so that the API server refuses the object"); withheld != tc.withheld ||
				withheld && !strings.Contains(said, "the API server refuses it: ") {
				t.Errorf("a configuration is unfinished: %t\n%s", withheld, said)
			}
			if claim, _ := get(made["MCPOIDCConfig/login"], "spec.oidc.groupsClaim"); text(claim) != tc.claim {
				t.Errorf("groups are in %v\n%s", claim, said)
			}
		})
	}
}

// Guards of ToolHive's servers that say nothing are no guards here, and the servers stay closed.
func TestAGuardWithoutContentSuspends(t *testing.T) {
	for guard, suspended := range map[string]bool{
		"authzConfig: {type: inline, inline: {policies: ['permit(principal, action, resource);']}}": false,
		"authzConfig: {inline: {policies: ['permit(principal, action, resource);']}}":               false,
		"authzConfig: {type: inline, inline: {policies: 'permit(principal, action, resource);'}}":   true,
		"authzConfig: {type: inline, inline: {policies: []}}":                                       true,
		"authzConfig: {type: inline, inline: {}}":                                                   true,
		"authzConfig: {type: inline}":                                                               true,
		"authzConfig: {type: configMap, configMap: {name: a}}":                                      true,
		"authzConfig: {}":                       true,
		"authzConfigRef: {}":                    true,
		"oidcConfigRef: {}":                     true,
		"oidcConfig: {}":                        true,
		"oidcConfigRef: {name: a, audience: a}": false,
	} {
		made, said := together(t, strings.Replace(open, "image: a", "image: a, "+guard, 1))
		if suspend, _ := get(made["MCPServer/open"], "spec.suspend"); (suspend == true) != suspended {
			t.Errorf("%s: suspended is %v\n%s", guard, suspend, said)
		}
	}
}

// One apply replaces what another stated before: of two objects with one name nobody knows which is meant.
func TestObjectsOfOneNameAreHeldBack(t *testing.T) {
	const ruled = "kind: MCPServer\nmetadata: {name: open}\nspec: {image: a, transport: streamable-http, authzConfig: " +
		"{type: inline, inline: {policies: ['permit(principal, action, resource);']}}}"
	const login = "spec: {%s, oidcConfig: {type: inline, inline: {issuer: 'https://%s.example.com', audience: a}}}"
	for name, tc := range map[string]struct {
		objects  []string
		heldBack int
	}{
		"a base and its patch": {[]string{ruled, open}, 2},
		"two namespaces": {
			[]string{ruled, strings.Replace(open, "{name: open}", "{name: open, namespace: b}", 1)},
			0,
		},
		"a file twice":          {[]string{ruled, ruled}, 0},
		"logins of two configs": {[]string{issued, strings.Replace(issued, "login.", "other.", 1), askedFor}, 1},
		"logins, and nobody":    {[]string{issued, strings.Replace(issued, "login.", "other.", 1)}, 2},
		"logins that are made here": {
			[]string{
				"kind: MCPServer\nmetadata: {name: a}\n" + fmt.Sprintf(login, "image: a", "staff"),
				"kind: MCPRemoteProxy\nmetadata: {name: a}\n" + fmt.Sprintf(login, "remoteUrl: 'https://a.example.com'", "all"),
			},
			2,
		},
		"one that is made here": {[]string{
			strings.Replace(issued, "{name: login}", "{name: a-login}", 1),
			"kind: MCPServer\nmetadata: {name: a}\n" + fmt.Sprintf(login, "image: a", "staff"),
		}, 1},
	} {
		_, said := together(t, tc.objects...)
		if got := strings.Count(said, "spec.suspend is true") + strings.Count(said, "spec is left out"); got != tc.heldBack {
			t.Errorf("%s: %d objects are held back, want %d\n%s", name, got, tc.heldBack, said)
		}
	}
}

// What would be refused later is said at once.
func TestWhatIsNotAcceptedIsSaid(t *testing.T) {
	for name, tc := range map[string]struct{ object, says string }{
		"annotations of an injector": {
			"kind: MCPServer\nmetadata: {name: a}\nspec: {image: a, transport: streamable-http, resourceOverrides: " +
				"{proxyDeployment: {podTemplateMetadataOverrides: {annotations: {vault.hashicorp.com/agent-inject: 'true'}}}}}",
			"Freehold does not accept it: spec.proxy.podTemplate.metadata.annotations",
		},
		"an account of ours": {
			"kind: MCPServer\nmetadata: {name: a}\nspec: {image: a, transport: streamable-http, serviceAccount: " +
				"mkp-proxy-runner}",
			"it: spec.serviceAccountName: ",
		},
		"a variable twice": {
			"kind: MCPServer\nmetadata: {name: a}\nspec: {image: a, transport: streamable-http, env: [{name: A, value: b}], " +
				"podTemplateSpec: {spec: {containers: [{name: mcp, env: [{name: A, value: c}]}]}}}",
			`the API server refuses it: spec.env[1]: Duplicate value`,
		},
		"no account": {
			"kind: MCPOIDCConfig\nmetadata: {name: a}\nspec: {type: kubernetesServiceAccount, kubernetesServiceAccount: {}}",
			"spec.kubernetesServiceAccount: {} -- name the service accounts whose tokens are accepted in " +
				"spec.kubernetes.serviceAccounts",
		},
		"policies of another kind": {
			"kind: MCPAuthzConfig\nmetadata: {name: a}\nspec: {type: opa, config: {url: a}}",
			"the API server refuses it: spec",
		},
		"policies that cannot be read": {
			"kind: MCPAuthzConfig\nmetadata: {name: a}\nspec: {type: cedarv1, config: {policies: ['permit(']}}",
			"Freehold does not accept it: spec: policy",
		},
		"a URL with a query": {
			"kind: MCPRemoteProxy\nmetadata: {name: a}\nspec: {remoteUrl: 'https://mcp.example.com/mcp?key=a'}",
			"the API server refuses it: spec.url: ",
		},
		"no URL": {
			"kind: MCPRemoteProxy\nmetadata: {name: a}\nspec: {}",
			"the API server refuses it: spec.url: Required value",
		},
	} {
		if _, said := together(t, tc.object); !strings.Contains(said, tc.says) {
			t.Errorf("%s: want %q, got\n%s", name, tc.says, said)
		}
	}
	for _, object := range []string{
		open, issued, company(""),
		"kind: MCPRemoteProxy\nmetadata: {name: a}\nspec: {remoteUrl: 'https://mcp.example.com/mcp'}",
	} {
		if _, said := together(t, object); strings.Contains(said, "it: spec") {
			t.Errorf("%s is refused:\n%s", object, said)
		}
	}
}
