package target

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

const discovery = "/.well-known/openid-configuration"

// login is whose tokens are accepted, nil if none is asked for.
func (t *Target) login(log *slog.Logger) (*oidc.Login, error) {
	a := t.config.Run.Proxy.Authentication
	if a == nil {
		return nil, nil //nolint:nilnil // nothing is what is configured
	}
	resource, err := url.Parse(a.Resource)
	if err != nil {
		return nil, fmt.Errorf("reading proxy.authentication.resource: %w", err)
	}
	config := oidc.Config{
		Issuer: a.Issuer, Discovery: strings.TrimSuffix(a.Issuer, "/") + discovery, KeysURL: a.KeysURL,
		Client:     &http.Client{},
		Algorithms: a.Algorithms, Audiences: a.Audiences, Scopes: a.Scopes,
		Skew:          time.Duration(a.ClockSkewSeconds) * time.Second,
		UsernameClaim: a.UsernameClaim, GroupsClaim: a.GroupsClaim, Usernames: a.Usernames, Resource: resource,
		Refuse: notLoggedIn, Deny: notListed, Log: log, Audit: t.auditor(log),
	}
	if a.CABundle != nil {
		config.Client.Transport = oidc.Trusting(filepath.Join(t.config.LoginDir, runconfig.CAFile))
	}
	if i := a.Introspection; i != nil {
		config.Introspection = &oidc.Introspection{
			URL: i.URL, ClientID: i.ClientID,
			SecretFile: filepath.Join(t.config.LoginDir, runconfig.ClientSecretFile),
		}
	}
	if a.Issuer == "" {
		if err := clusterIssuer(&config, t.config.UserAgent); err != nil {
			return nil, err
		}
	}
	// No issuer has a reason to send us elsewhere, least of all with our own token.
	config.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return oidc.New(config), nil
}

// clusterIssuer takes issuer and keys from the API server, which serves both to
// every service account
// (https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#service-account-issuer-discovery).
// The address of the keys in its discovery document need not be one that pods reach.
func clusterIssuer(config *oidc.Config, userAgent string) error {
	api, err := ctrlconfig.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server, whose tokens are accepted: %w", err)
	}
	api.UserAgent = userAgent
	if config.Client, err = rest.HTTPClientFor(api); err != nil {
		return fmt.Errorf("building a client for the API server: %w", err)
	}
	host := strings.TrimSuffix(api.Host, "/")
	config.Discovery, config.KeysURL = host+discovery, host+"/openid/v1/jwks"
	return nil
}

// notLoggedIn answers a request without a token that is accepted.
func notLoggedIn(w http.ResponseWriter, status int, message string) {
	proxy.Answer(w, jsonrpc.Fail(status, proxy.CodeNotLoggedIn, "NotLoggedIn: %s", message), nil)
}
