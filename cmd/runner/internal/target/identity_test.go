package target

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Callers that the backend may tell apart share no session with it.
func TestWhoIsAnotherCaller(t *testing.T) {
	request := func(query string, headers ...string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/mcp"+query, http.NoBody)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return r
	}
	for name, tc := range map[string]struct {
		a, b     *http.Request
		trusting bool
		apart    bool
	}{
		"nothing":            {request(""), request(""), true, false},
		"a key":              {request("", "X-Api-Key", "a"), request("", "X-Api-Key", "b"), false, true},
		"a key in the query": {request("?apiKey=a"), request("?apiKey=b"), false, true},
		"a user in front": {
			request("", "X-Forwarded-User", "a"), request("", "X-Forwarded-User", "b"), true,
			true,
		},
		"a certificate in front": {
			request("", "X-Forwarded-Client-Cert", "a"),
			request("", "X-Forwarded-Client-Cert", "b"), true, true,
		},
		"a user that nobody trusts": {
			request("", "X-Forwarded-User", "a"), request("", "X-Forwarded-User", "b"), false,
			false,
		},
		"a way": {
			request("", "Forwarded", "for=192.0.2.1"),
			request("", "Forwarded", "for=192.0.2.2"), true, false,
		},
		"an address": {
			request("", "X-Forwarded-For", "192.0.2.1:1"),
			request("", "X-Forwarded-For", "192.0.2.1:2"), true, false,
		},
		"a client of a virtual server": {
			request("", "Freehold-Session", "a"), request("", "Freehold-Session", "b"), false, true,
		},
		"a mark that looks like a key": {
			request("", "Freehold-Session", "X-Api-Key"), request("", "X-Api-Key", ""), false, true,
		},
		"a trace":                       {request("", "Traceparent", "a"), request("", "Traceparent", "b"), true, false},
		"a query that looks like a key": {request("?X-Api-Key"), request("", "X-Api-Key", ""), false, true},
	} {
		if apart := identity(tc.a, false, tc.trusting) != identity(tc.b, false, tc.trusting); apart != tc.apart {
			t.Errorf("%s: two callers: %v", name, apart)
		}
	}
}

// What lets a caller in goes with the question which eras the backend speaks; a load balancer's words do if they reach
// the backend.
func TestWhatLetsACallerIn(t *testing.T) {
	for name, want := range map[string]struct{ always, trusting bool }{
		"X-Api-Key":        {true, true},
		"X-Forwarded-User": {false, true},
		"X-Forwarded-Host": {false, true},
		"Forwarded":        {false, true},
		"Authorization":    {false, false},
		"Baggage":          {false, false},
		"User-Agent":       {false, false},
	} {
		if always, trusting := credential(name, false), credential(name, true); always != want.always ||
			trusting != want.trusting {
			t.Errorf("%s: %v, and %v with a trusted load balancer", name, always, trusting)
		}
	}
}
