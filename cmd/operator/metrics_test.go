package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
)

// reviewer is an API server that knows two tokens, of which one may read metrics.
type reviewer struct {
	asked atomic.Int32
	fails atomic.Bool
}

func (a *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked.Add(1)
	if a.fails.Load() {
		http.Error(w, "not now", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
		review := authenticationv1.TokenReview{}
		_ = json.NewDecoder(r.Body).Decode(&review)
		name, known := strings.CutPrefix(review.Spec.Token, "token-of-")
		review.APIVersion, review.Kind = "authentication.k8s.io/v1", "TokenReview"
		review.Status.Authenticated, review.Status.User.Username = known, name
		_ = json.NewEncoder(w).Encode(review)
		return
	}
	review := authorizationv1.SubjectAccessReview{}
	_ = json.NewDecoder(r.Body).Decode(&review)
	review.APIVersion, review.Kind = "authorization.k8s.io/v1", "SubjectAccessReview"
	on := review.Spec.NonResourceAttributes
	review.Status.Allowed = review.Spec.User == "prometheus" && on != nil && on.Verb == "get" && on.Path == "/metrics"
	_ = json.NewEncoder(w).Encode(review)
}

// guardedBy is /metrics behind the filter, before an API server.
func guardedBy(t *testing.T, api *reviewer) http.Handler {
	t.Helper()
	s := httptest.NewServer(api)
	t.Cleanup(s.Close)
	filter, err := guarded(&rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		s.Client())
	if err != nil {
		t.Fatal(err)
	}
	h, err := filter(logr.Discard(),
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("the metrics")) }))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func get(h http.Handler, method, path, authorization string) (status int, body string) {
	r := httptest.NewRequest(method, path, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestSecureMetricsAreForWhomTheAPIServerLetsRead(t *testing.T) {
	api := &reviewer{}
	h := guardedBy(t, api)
	for name, tc := range map[string]struct {
		method, path, authorization string
		want                        int
	}{
		"nobody":                  {"GET", "/metrics", "", http.StatusUnauthorized},
		"another scheme":          {"GET", "/metrics", "Basic token-of-prometheus", http.StatusUnauthorized},
		"an empty token":          {"GET", "/metrics", "Bearer ", http.StatusUnauthorized},
		"a token of nobody":       {"GET", "/metrics", "Bearer nonsense", http.StatusUnauthorized},
		"an account without role": {"GET", "/metrics", "Bearer token-of-somebody", http.StatusForbidden},
		"another path":            {"GET", "/metrics/other", "Bearer token-of-prometheus", http.StatusForbidden},
		"another verb":            {"POST", "/metrics", "Bearer token-of-prometheus", http.StatusForbidden},
		"who may":                 {"GET", "/metrics", "bearer token-of-prometheus", http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := get(h, tc.method, tc.path, tc.authorization)
			if status != tc.want || (body == "the metrics") != (tc.want == http.StatusOK) {
				t.Errorf("got %d and %q, want %d", status, body, tc.want)
			}
		})
	}
}

// Each scrape would else be two requests to the API server.
func TestAnAnswerIsBelievedForAWhile(t *testing.T) {
	api := &reviewer{}
	h := guardedBy(t, api)
	for range 3 {
		get(h, "GET", "/metrics", "Bearer token-of-prometheus")
		get(h, "GET", "/metrics", "Bearer nonsense")
	}
	if n := api.asked.Load(); n != 3 {
		t.Errorf("the API server was asked %d times, want 2 for who may and 1 for who is unknown", n)
	}
}

// What could not be asked is not believed, neither way.
func TestNobodyReadsWhileTheAPIServerFails(t *testing.T) {
	api := &reviewer{}
	h := guardedBy(t, api)
	api.fails.Store(true)
	if status, body := get(h, "GET", "/metrics", "Bearer token-of-prometheus"); status != http.StatusServiceUnavailable ||
		strings.Contains(body, "metrics are") {
		t.Errorf("got %d and %q, want 503", status, body)
	}
	api.fails.Store(false)
	if status, _ := get(h, "GET", "/metrics", "Bearer token-of-prometheus"); status != http.StatusOK {
		t.Errorf("got %d after the API server came back, want 200", status)
	}
}
