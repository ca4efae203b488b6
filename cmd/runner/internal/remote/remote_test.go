package remote

import (
	"context"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

func server(t *testing.T, config runconfig.Remote) *Server {
	t.Helper()
	if config.URL == "" {
		config.URL = "https://mcp.example.com/mcp"
	}
	s, err := New(config, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t *testing.T, s *Server, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.files, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func reasonOf(err error) string {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal.Reason
	}
	return ""
}

func TestOnlyPublicAddressesAreConnectedTo(t *testing.T) {
	for address, want := range map[string]bool{
		"93.184.215.14": true, "8.8.8.8": true, "2606:4700::6810:84e5": true, "::ffff:8.8.8.8": true,
		"127.0.0.1": false, "127.8.9.1": false, "::1": false, "0.0.0.0": false, "::": false,
		"10.1.2.3": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false, "fd00:ec2::254": false,
		"fc00::1":         false,
		"169.254.169.254": false, "fe80::1": false, "100.100.100.200": false, "168.63.129.16": false, "192.0.0.192": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::127.0.0.1": false,
		"64:ff9b::7f00:1": false, "2002:7f00:1::": false, "2001::1": false, "224.0.0.1": false, "ff02::1": false,
		"255.255.255.255": false,
		"172.15.0.1":      true, "172.32.0.1": true, "100.63.0.1": true, "100.128.0.1": true,
	} {
		err := server(t, runconfig.Remote{}).Connect(t.Context(), "tcp", net.JoinHostPort(address, "443"), nil)
		if (err == nil) != want || err != nil && reasonOf(err) != AddressNotAllowed {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestANetworkThatIsAllowedIsConnectedTo(t *testing.T) {
	s := server(t, runconfig.Remote{AllowedNetworks: []string{"10.96.0.0/12", "fd00::/8"}})
	for address, want := range map[string]bool{
		"10.96.0.10": true, "::ffff:10.96.0.10": true, "10.95.0.1": false,
		"fd00::1": true, "169.254.169.254": false,
	} {
		if err := s.Connect(t.Context(), "tcp", net.JoinHostPort(address, "443"), nil); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := New(runconfig.Remote{URL: "https://x", AllowedNetworks: []string{"10.0.0.0"}}, ""); err == nil {
		t.Error("what is no CIDR was read")
	}
}

// What a name is resolved to is looked at, not the name.
func TestANameThatLeadsToAPrivateAddressIsRefused(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	dialer := net.Dialer{ControlContext: server(t, runconfig.Remote{URL: "https://localhost/"}).Connect}
	_, err = dialer.DialContext(t.Context(), "tcp", "localhost:"+port)
	if reasonOf(err) != AddressNotAllowed || !strings.Contains(err.Error(), "spec.allowedNetworks") {
		t.Errorf("got %v", err)
	}
}

func TestHeadersAreReadFromFilesAndFollowTheirChanges(t *testing.T) {
	s := server(t, runconfig.Remote{Headers: []runconfig.Header{
		{Name: "Authorization", Secret: &runconfig.Key{Name: "s", Key: "k"}}, {Name: "X-Team", Value: "a"},
	}})
	present := func() (http.Header, error) {
		out := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		out.Header.Set("Authorization", "Bearer of-a-client")
		err := s.Present(out)
		return out.Header, err
	}
	if _, err := present(); reasonOf(err) != CredentialsRefused ||
		!strings.Contains(err.Error(), "the Secret that spec.headers names") {
		t.Errorf("without its file: %v", err)
	}
	write(t, s, runconfig.HeaderFile("Authorization"), "Bearer one\n")
	got, err := present()
	if err != nil || got.Get("Authorization") != "Bearer one" || got.Get("X-Team") != "a" {
		t.Errorf("got %v, %v", got, err)
	}
	write(t, s, runconfig.HeaderFile("Authorization"), "Bearer two")
	s.read = time.Now().Add(-2 * reread)
	if got, err := present(); err != nil || got.Get("Authorization") != "Bearer two" {
		t.Errorf("got %v, %v", got, err)
	}
	write(t, s, runconfig.HeaderFile("Authorization"), "secret\r\nX-Admin: yes")
	s.read = time.Now().Add(-2 * reread)
	if _, err := present(); reasonOf(err) != CredentialsRefused || strings.Contains(err.Error(), "secret\r") {
		t.Errorf("got %v", err)
	}
}

func TestARequestIsForTheServerAlone(t *testing.T) {
	out := httptest.NewRequest(http.MethodPost, "http://proxy.team.svc:8000/mcp?x=1", http.NoBody)
	out.Header.Set("Origin", "https://page.example.com")
	server(t, runconfig.Remote{URL: "https://mcp.example.com:8443/v1/mcp"}).Address(out)
	if got := out.URL.String(); got != "https://mcp.example.com:8443/v1/mcp?x=1" || out.Host != "" ||
		out.Header.Get("Origin") != "" {
		t.Errorf("it goes to %s of host %q with %v", got, out.Host, out.Header)
	}
}

func TestAnswersThatAreNotPassedOn(t *testing.T) {
	s := server(t, runconfig.Remote{})
	for status, want := range map[int]string{
		200: "", 202: "", 304: "", 400: "", 403: "", 404: "", 405: "", 500: "",
		401: CredentialsRefused, 407: CredentialsRefused, 301: NotMCP, 302: NotMCP, 307: NotMCP, 308: NotMCP,
	} {
		response := &http.Response{
			StatusCode: status,
			Header:     http.Header{"Www-Authenticate": {"Bearer"}, "Location": {"https://other.example.com/mcp?token=x"}},
		}
		err := s.Judge(response)
		if reasonOf(err) != want {
			t.Errorf("%d: %v, with %v", status, err, response.Header)
		}
		if want == NotMCP && (!strings.Contains(err.Error(), "https://other.example.com/mcp ") ||
			strings.Contains(err.Error(), "token")) {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// secured tries TLS to what listens at address.
func secured(t *testing.T, s *Server, address string) error {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err = s.Secure(ctx, conn)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

func TestOnlyATrustedCertificateIsBelieved(t *testing.T) {
	up := httptest.NewTLSServer(http.NotFoundHandler())
	defer up.Close()
	address := up.Listener.Addr().String()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: up.Certificate().Raw})

	// The certificate of httptest is for example.com and 127.0.0.1.
	trusting := func(host string) *Server {
		s := server(t, runconfig.Remote{URL: "https://" + host + "/mcp", CABundle: &runconfig.Key{Name: "ca", Key: "ca.crt"}})
		write(t, s, runconfig.CAFile, string(own))
		return s
	}
	if err := secured(t, trusting("example.com"), address); err != nil {
		t.Error(err)
	}
	if err := secured(t, trusting("other.org"), address); reasonOf(err) != NotTrusted ||
		!strings.Contains(err.Error(), "host of spec.url") {
		t.Errorf("for another host: %v", err)
	}
	if err := secured(t, server(t, runconfig.Remote{URL: "https://example.com"}), address); reasonOf(err) != NotTrusted ||
		!strings.Contains(err.Error(), "spec.caBundleRef") {
		t.Errorf("without the bundle: %v", err)
	}
	if err := secured(t, trusting("example.com"), plain.Listener.Addr().String()); reasonOf(err) != NotTrusted ||
		!strings.Contains(err.Error(), "does not speak TLS") {
		t.Errorf("without TLS: %v", err)
	}
	missing := server(t, runconfig.Remote{URL: "https://example.com", CABundle: &runconfig.Key{Name: "ca", Key: "ca.crt"}})
	if err := secured(t, missing, address); reasonOf(err) != NotTrusted ||
		!strings.Contains(err.Error(), "spec.caBundleRef") {
		t.Errorf("without the file of the bundle: %v", err)
	}
	s := trusting("example.com")
	write(t, s, runconfig.CAFile, "none")
	if err := secured(t, s, address); reasonOf(err) != NotTrusted {
		t.Errorf("with an empty bundle: %v", err)
	}
}
