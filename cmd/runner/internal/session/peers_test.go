package session

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// entries is a directory of keys, each of one letter.
func entries(t *testing.T, letters map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, letter := range letters {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat(letter, 32)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestProxiesOfOneServerKnowEachOther(t *testing.T) {
	now := map[string]string{runconfig.SessionKey: "a"}
	here := Follow(entries(t, now), "s", "uid-1")
	for name, tc := range map[string]struct {
		there *Keys
		know  bool
	}{
		"the same key": {Follow(entries(t, now), "s", "uid-1"), true},
		"the next beside": {
			Follow(entries(t, map[string]string{runconfig.SessionKey: "a", "next": "b"}), "s", "uid-1"),
			true,
		},
		"the next": {
			Follow(entries(t, map[string]string{runconfig.SessionKey: "b", "previous": "a"}), "s", "uid-1"),
			false,
		},
		"another key":    {Follow(entries(t, map[string]string{runconfig.SessionKey: "b"}), "s", "uid-1"), false},
		"another server": {Follow(entries(t, now), "s", "uid-2"), false},
	} {
		for way, ends := range map[string][2]*Keys{"to": {here, tc.there}, "from": {tc.there, here}} {
			if got := shake(t, ends[0], ends[1]); got != tc.know {
				t.Errorf("%s, %s: %t", name, way, got)
			}
		}
	}
	if _, err := Follow(t.TempDir(), "s", "uid-1").Peers(); !errors.As(err, new(ErrNoKey)) {
		t.Errorf("without a key: %v", err)
	}
}

// shake reports whether each end learned that the other is one of ours.
func shake(t *testing.T, client, server *Keys) bool {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	served := make(chan error, 1)
	go func() {
		conn := tls.Server(far, server.Accept())
		_, err := conn.Write([]byte("x"))
		_ = far.Close()
		served <- err
	}()
	config, err := client.Peers()
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1)
	_, err = tls.Client(near, config).Read(got)
	_ = near.Close()
	return <-served == nil && err == nil && bytes.Equal(got, []byte("x"))
}
