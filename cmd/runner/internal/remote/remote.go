// Package remote is the way to an MCP server that runs elsewhere: what requests to it carry, which of its answers are
// passed on, and which addresses may be connected to. Its Dialer connects also to a backend of this cluster.
package remote

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// reread is for how long what was read of files is believed. kubelet brings changes
// of them within a minute or two.
const reread = 5 * time.Second

// Server is an MCP server that runs elsewhere.
type Server struct {
	// URL is where it answers MCP.
	URL *url.URL

	config  runconfig.Remote
	files   string
	allowed []netip.Prefix

	mu      sync.Mutex
	headers http.Header
	read    time.Time
}

// New returns the server of a run config, whose files are in a directory. The error
// names the field that is wrong.
func New(config runconfig.Remote, files string) (*Server, error) {
	u, err := url.Parse(config.URL)
	if err != nil {
		return nil, fmt.Errorf("reading remote.url: %w", err)
	}
	s := &Server{URL: u, config: config, files: files}
	for _, text := range config.AllowedNetworks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("reading remote.allowedNetworks: %w", err)
		}
		s.allowed = append(s.allowed, network)
	}
	return s, nil
}

// Address makes a request one to the server, whatever was asked of the proxy. The
// Host is the server's own: it has never heard of ours. So is what a browser says of
// the page that calls: the proxy has judged it, and the server would compare it with
// its own name.
func (s *Server) Address(out *http.Request) {
	out.URL.Scheme, out.URL.Host, out.URL.Path, out.URL.RawPath, out.Host = s.URL.Scheme, s.URL.Host, s.URL.Path,
		s.URL.RawPath, ""
	ForgetPage(out.Header)
}

// ForgetPage takes out of a request what a browser says of the page that calls.
func ForgetPage(header http.Header) {
	for _, name := range []string{"Origin", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site"} {
		header.Del(name)
	}
}

// Present sets the headers that the server is to see. The error says which of them
// cannot be read, and never what it holds.
func (s *Server) Present(out *http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.headers == nil || time.Since(s.read) > reread {
		headers, err := s.readHeaders()
		if err != nil {
			return err
		}
		s.headers, s.read = headers, time.Now()
	}
	for name, values := range s.headers {
		out.Header[name] = values
	}
	return nil
}

func (s *Server) readHeaders() (http.Header, error) {
	headers := http.Header{}
	for _, h := range s.config.Headers {
		value := h.Value
		if h.Secret != nil {
			data, err := os.ReadFile(filepath.Join(s.files, runconfig.HeaderFile(h.Name)))
			if err != nil {
				return nil, &Refusal{
					CredentialsRefused,
					fmt.Sprintf("the value of header %s cannot be read: write it under its key into the Secret that spec.headers "+
						"names", h.Name),
				}
			}
			value = strings.TrimSpace(string(data)) // most files end in a newline
		}
		if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, &Refusal{
				CredentialsRefused,
				fmt.Sprintf("the value of header %s is empty, or not visible ASCII characters alone: correct it in the Secret "+
					"that spec.headers names", h.Name),
			}
		}
		headers[http.CanonicalHeaderKey(h.Name)] = []string{value}
	}
	return headers, nil
}

// Judge looks at an answer before it is passed on, and returns why it is not. What
// asks for a login is answered to the proxy: a client that followed it would log in
// at the server, and send us a token that is not for us (MCP specification, security
// best practices, token passthrough). A redirect would lead a client past the proxy.
func (s *Server) Judge(response *http.Response) error {
	if code := response.StatusCode; code == http.StatusUnauthorized || code == http.StatusProxyAuthRequired {
		return refusedCredentials(code)
	}
	return Redirected(response, "the server at spec.url", "write the final address into spec.url")
}
