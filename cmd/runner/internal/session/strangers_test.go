package session

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// door is a port for proxies, with so many places for strangers, that answers who is let in with what it sends.
func door(t *testing.T, keys *Keys, places int) *peers {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := keys.Listen(listener).(*peers)
	d.places = share.New(places, share.Half(places))
	t.Cleanup(func() { _ = d.Close() })
	go func() {
		for {
			conn, err := d.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return d
}

// knock opens a connection from an address of this machine.
func (p *peers) knock(t *testing.T, from string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.Dial("tcp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

// letIn reports whether who has a configuration gets in.
func (p *peers) letIn(t *testing.T, from string, config *tls.Config) bool {
	t.Helper()
	conn := tls.Client(p.knock(t, from), config)
	defer conn.Close()
	if _, err := conn.Write([]byte("x")); err != nil {
		return false
	}
	n, err := conn.Read(make([]byte, 1))
	return n == 1 && err == nil
}

// free waits until so many places are.
func (p *peers) free(t *testing.T, caller string, places int64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if leave, err := p.places.Take(caller, places); err == nil {
			leave()
			return
		}
	}
	t.Fatalf("%d places were not free in a minute", places)
}

func configOf(t *testing.T, keys *Keys) *tls.Config {
	t.Helper()
	config, err := keys.Peers()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// closed waits until the other end closes a connection to which it says nothing.
func closed(t *testing.T, conn net.Conn) {
	t.Helper()
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("%d bytes came, %v", n, err)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("it stays open")
	}
}

func TestStrangersHaveBoundsAndProxiesGetThrough(t *testing.T) {
	keys := Follow(entries(t, map[string]string{runconfig.SessionKey: "a"}), "s", "uid-1")
	d := door(t, keys, 8)
	ours := configOf(t, keys)
	var silent []net.Conn
	for range 4 {
		silent = append(silent, d.knock(t, "127.0.0.2"))
	}
	closed(t, d.knock(t, "127.0.0.2"))
	if d.letIn(t, "127.0.0.2", ours) {
		t.Error("an address of strangers has more than its share")
	}
	if !d.letIn(t, "127.0.0.3", ours) {
		t.Error("strangers at one address keep proxies at another out")
	}
	for range 3 { // who is known takes no place
		conn := tls.Client(d.knock(t, "127.0.0.3"), ours)
		if err := conn.Handshake(); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	d.free(t, "127.0.0.3", 4)
	for _, conn := range silent {
		_ = conn.Close()
	}
	d.free(t, "", 8)
	if !d.letIn(t, "127.0.0.2", ours) {
		t.Error("places are not given back")
	}
}

// Who has many addresses fills all places, and keeps nobody out who shows a key.
func TestStrangersAtManyAddressesKeepNoProxyOut(t *testing.T) {
	keys := Follow(entries(t, map[string]string{runconfig.SessionKey: "a"}), "s", "uid-1")
	d := door(t, keys, 8)
	ours := configOf(t, keys)
	var silent []net.Conn
	for i := range 8 {
		silent = append(silent, d.knock(t, []string{"127.0.0.2", "127.0.0.3"}[i%2]))
	}
	for range 3 {
		if !d.letIn(t, "127.0.0.4", ours) {
			t.Fatal("a proxy is kept out")
		}
	}
	closed(t, silent[0]) // the oldest
	_ = silent[7].SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := silent[7].Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("more were ended than had to be: %v", err)
	}
	for _, conn := range silent {
		_ = conn.Close()
	}
	d.free(t, "", 8)
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.waits.Len(); n != 0 {
		t.Errorf("%d are remembered", n)
	}
}

// A certificate is told to everybody who connects. Who shows it without its key stays a stranger.
func TestWhoShowsOursWithoutItsKeyStaysAStranger(t *testing.T) {
	keys := Follow(entries(t, map[string]string{runconfig.SessionKey: "a"}), "s", "uid-1")
	d := door(t, keys, maxStrangers)
	stolen := configOf(t, keys)
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stolen.Certificates = []tls.Certificate{{Certificate: stolen.Certificates[0].Certificate, PrivateKey: other}}
	if d.letIn(t, "127.0.0.2", stolen) {
		t.Error("it is let in")
	}
	d.free(t, "", maxStrangers)
}

// What a stranger shows at length is not read to its end.
func TestAStrangerIsNotReadAtLength(t *testing.T) {
	keys := Follow(entries(t, map[string]string{runconfig.SessionKey: "a"}), "s", "uid-1")
	d := door(t, keys, maxStrangers)
	long := configOf(t, keys)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"long"}}
	for len(template.DNSNames) < 4000 {
		template.DNSNames = append(template.DNSNames, "a-name-of-somebody.example.com")
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	long.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}
	if len(der) < 4*maxShown {
		t.Fatalf("the certificate has %d bytes", len(der))
	}
	if d.letIn(t, "127.0.0.2", long) {
		t.Error("it is let in")
	}
	inner := &shownConn{Conn: d.knock(t, "127.0.0.2"), read: maxShown}
	if _, err := inner.Read(make([]byte, 1)); !errors.Is(err, errShown) {
		t.Errorf("got %v", err)
	}
	d.free(t, "", maxStrangers-1)
}
