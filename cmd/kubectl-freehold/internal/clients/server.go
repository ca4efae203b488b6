package clients

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Server is an MCPServer or MCPRemoteProxy as its clients see it.
type Server struct {
	Namespace, Name string
	// URL is status.url, empty before the first report, and Public status.publicURL.
	URL, Public string

	Spec *v1alpha1.ProxyWorkloadSpec
	// login is nil where the proxy accepts calls without a token.
	login *v1alpha1.MCPOIDCConfigSpec
}

// LoginRef is the kind, as kubectl takes it, and the name of the object that says whose tokens are accepted, empty
// where none does.
func (s *Server) LoginRef() (kind, name string) {
	if s.Spec.OIDCConfigRef == nil {
		return "", ""
	}
	return "mcpoidcconfigs." + v1alpha1.SchemeGroupVersion.Version + "." + v1alpha1.SchemeGroupVersion.Group,
		s.Spec.OIDCConfigRef.Name
}

// AcceptTokensOf takes the object that LoginRef names.
func (s *Server) AcceptTokensOf(config *unstructured.Unstructured) error {
	read := &v1alpha1.MCPOIDCConfig{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(config.Object, read); err != nil {
		return fmt.Errorf("reading MCPOIDCConfig/%s: %w", config.GetName(), err)
	}
	s.login = &read.Spec
	return nil
}

// Endpoint is what a client is told. ClientID is empty where it registers itself. Port is that of this machine from
// which calls are forwarded, 0 where they are not: a client that logs in asks for a token for the URL that it calls, so
// that it needs one from elsewhere then.
func (s *Server) Endpoint(clientID string, port int) (Endpoint, error) {
	e := Endpoint{
		Name: NameOf(s.Namespace, s.Name), Transport: "streamable-http", Access: Open, InCluster: s.URL, URL: s.Published(),
	}
	if port != 0 {
		e.URL = fmt.Sprintf("http://127.0.0.1:%d%s", port, s.Path())
	}
	switch {
	case s.login == nil:
		if clientID != "" {
			return e, errors.New("nobody logs in to this server (spec.oidcConfigRef): leave --client-id out")
		}
		return e, nil
	case s.login.Kubernetes != nil:
		account := s.login.Kubernetes.ServiceAccounts[0]
		e.Account = fmt.Sprintf("kubectl create token %s -n %s --audience %s --duration 1h", account.Name,
			account.Namespace, Quoted(s.Audience()))
	case port == 0:
		e.Issuer, e.ClientID, e.Scopes = s.login.OIDC.Issuer, clientID, s.Spec.OIDCConfigRef.Scopes
		e.Access = Login
		return e, nil
	}
	e.Access, e.Header = Token, "Authorization"
	return e, nil
}

// Published is where clients call that are not forwarded.
func (s *Server) Published() string {
	return cmp.Or(s.Public, workload.PublicURL(s.Spec), s.URL)
}

// Path is that of status.url, which has the default of the transport.
func (s *Server) Path() string {
	_, behind, _ := strings.Cut(s.URL, "://")
	_, path, _ := strings.Cut(behind, "/")
	return "/" + path
}

// Audience is what a token must be for.
func (s *Server) Audience() string {
	if own := s.Spec.OIDCConfigRef.Audiences; len(own) > 0 {
		return own[0]
	}
	return s.Published()
}
