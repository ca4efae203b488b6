package program

import (
	"io"
	"net"
	"strings"
	"testing"
)

// A server that listens by itself is told apart from one that speaks on standard output.
func TestTheServerTakesThePortOfItsBridge(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := settings{address: taken.Addr().String(), command: []string{"cat"}}
	if err := s.serve(t.Context(), func() {}, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "write transport: streamable-http") {
		t.Error(err)
	}
}
