package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// profilingAddress is reachable only by kubectl port-forward: a profile shows what is in memory.
const profilingAddress = "127.0.0.1:6060"

func (s settings) metrics() server.Options {
	options := server.Options{BindAddress: s.metricsAddress}
	if s.metricsSecure {
		options.SecureServing = true
		options.CertDir = s.metricsCertDir
		options.FilterProvider = guarded
	}
	return options
}

// How long the API server's answers about a caller are cached. A refusal is cached for less, so that a new right
// counts soon.
const (
	believeYes = time.Minute
	believeNo  = 10 * time.Second
	// askTime is how long the API server may take to answer.
	askTime = 10 * time.Second
)

// guarded authenticates callers by a TokenReview, and authorizes the path by a SubjectAccessReview, as
// controller-runtime's WithAuthenticationAndAuthorization does, but without the libraries of the API server
// (docs/adr/0029-a-review-is-a-question.md).
func guarded(config *rest.Config, c *http.Client) (server.Filter, error) {
	tokens, err := authenticationclient.NewForConfigAndClient(config, c)
	if err != nil {
		return nil, fmt.Errorf("preparing to ask who reads metrics: %w", err)
	}
	access, err := authorizationclient.NewForConfigAndClient(config, c)
	if err != nil {
		return nil, fmt.Errorf("preparing to ask who may read metrics: %w", err)
	}
	g := &guard{tokens: tokens.TokenReviews(), access: access.SubjectAccessReviews(), known: cache.NewExpiring()}
	return g.filter, nil
}

type guard struct {
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface
	// known are answers, by hash of the question.
	known *cache.Expiring
}

// filter answers 401 to a caller without a valid token, 403 to one without the right to the path, and 503 while the
// API server does not answer.
func (g *guard) filter(log logr.Logger, next http.Handler) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || token == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "send a token of the cluster: Authorization: Bearer TOKEN", http.StatusUnauthorized)
			return
		}
		status, err := g.judge(r.Context(), token, strings.ToLower(r.Method), r.URL.Path)
		switch {
		case err != nil:
			log.Error(err, "cannot check who reads metrics")
			http.Error(w, "the API server does not answer who may read this", http.StatusServiceUnavailable)
		case status != http.StatusOK:
			http.Error(w, http.StatusText(status), status)
		default:
			next.ServeHTTP(w, r)
		}
	}), nil
}

// judge is the status for the caller.
func (g *guard) judge(ctx context.Context, token, verb, path string) (int, error) {
	key := sha256.Sum256([]byte(verb + "\x00" + path + "\x00" + token))
	if status, ok := g.known.Get(key); ok {
		if status, ok := status.(int); ok {
			return status, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	status, err := g.ask(ctx, token, verb, path)
	if err != nil {
		return 0, err
	}
	believe := believeNo
	if status == http.StatusOK {
		believe = believeYes
	}
	g.known.Set(key, status, believe)
	return status, nil
}

func (g *guard) ask(ctx context.Context, token, verb, path string) (int, error) {
	who, err := g.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}},
		metav1.CreateOptions{})
	switch {
	case err != nil:
		return 0, fmt.Errorf("asking who reads metrics: %w", err)
	case !who.Status.Authenticated:
		return http.StatusUnauthorized, nil
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range who.Status.User.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	may, err := g.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.Status.User.Username, UID: who.Status.User.UID, Groups: who.Status.User.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb, Path: path},
	}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return 0, fmt.Errorf("asking whether %s may read metrics: %w", who.Status.User.Username, err)
	case !may.Status.Allowed || may.Status.Denied:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
