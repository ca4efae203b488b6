package proxy

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestOrigins(t *testing.T) {
	o := newOrigins([]string{"https://app.example.com"}, []string{"echo-proxy", "MCP.example.com"})
	for name, tc := range map[string]struct {
		host, origin, site string
		pass               bool
	}{
		"no browser":                            {"anything.example.net", "", "", true},
		"listed":                                {"echo-proxy:8000", "https://app.example.com", "cross-site", true},
		"listed, by an old browser":             {"echo-proxy:8000", "https://app.example.com", "", true},
		"listed but another port":               {"echo-proxy:8000", "https://app.example.com:8443", "", false},
		"not listed":                            {"echo-proxy:8000", "https://evil.example.net", "cross-site", false},
		"not listed, by an old browser":         {"echo-proxy:8000", "https://evil.example.net", "", false},
		"opaque":                                {"echo-proxy:8000", "null", "", false},
		"an image on another site":              {"localhost:8000", "", "cross-site", false},
		"another host of our site":              {"mcp.example.com", "https://blog.example.com", "same-site", false},
		"typed into the address bar":            {"localhost:8000", "", "none", true},
		"same origin under a name of ours":      {"echo-proxy:8000", "http://echo-proxy:8000", "same-origin", true},
		"same origin under the public name":     {"mcp.example.com", "https://mcp.example.com", "", true},
		"same origin by port-forward":           {"localhost:8000", "http://localhost:8000", "same-origin", true},
		"same origin by address":                {"[::1]:8000", "http://[::1]:8000", "same-origin", true},
		"same origin by address without a port": {"10.1.2.3", "http://10.1.2.3", "same-origin", true},
		"same name but another port":            {"localhost:8000", "http://localhost:9000", "same-site", false},
		"rebound name": {
			"evil.example.net:8000", "http://evil.example.net:8000", "same-origin",
			false,
		},
		"rebound name, by an old browser": {"evil.example.net:8000", "http://evil.example.net:8000", "", false},
		"rebound name without Origin":     {"evil.example.net:8000", "", "same-origin", false},
	} {
		if name == "no browser" {
			r := httptest.NewRequest(http.MethodGet, "/mcp", http.NoBody)
			if r.Host = tc.host; o.check(r) == nil {
				t.Error("a GET under a foreign name passes")
			}
			if r.Host = ""; o.check(r) != nil {
				t.Error("a GET that names no host is refused")
			}
			tc.host = "10.1.2.3:8000"
		}
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodOptions} {
			r := httptest.NewRequest(method, "/mcp", http.NoBody)
			r.Host = tc.host
			if tc.origin != "" {
				r.Header.Set("Origin", tc.origin)
			}
			if tc.site != "" {
				r.Header.Set("Sec-Fetch-Site", tc.site)
			}
			if err := o.check(r); (err == nil) != tc.pass {
				t.Errorf("%s, %s: got %v, want it to pass: %v", name, method, err, tc.pass)
			}
		}
	}
}

func TestRefusedOriginIsAnswered(t *testing.T) {
	b := serve(t, Config{}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a call reached the backend")
	}))
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		wantFault(t, b.call(method, "/mcp", "", "Origin", "https://evil.example.net"), http.StatusForbidden,
			CodeOriginRefused, "allowedOrigins")
	}
	other := b.request(http.MethodGet, "/mcp", "")
	other.Host = "mcp.example.com"
	wantFault(t, b.do(other), http.StatusMisdirectedRequest, CodeOriginRefused,
		`host "mcp.example.com" is not a name of this server`)
}
