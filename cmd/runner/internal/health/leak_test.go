package health

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

func TestNothingIsLeftOfAThousandProbes(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := new(State).Server()
	defer server.Close()
	go func() { _ = server.Serve(listener) }()
	for _, said := range []string{"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n", "GET /livez HT", ""} {
		goroutines, descriptors := held(t)
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				for range 100 {
					if err := probe(listener.Addr().String(), said); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		left := ""
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			g, d := held(t)
			if left = fmt.Sprintf("%d goroutines and %d descriptors", g-goroutines, d-descriptors); g <= goroutines &&
				d <= descriptors {
				left = ""
				break
			}
		}
		if left != "" {
			t.Errorf("after probes that said %q, %s are left", said, left)
		}
	}
}

// probe says something, reads the beginning of an answer to a whole request,
// and leaves without a word.
func probe(address, said string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, said); err != nil || len(said) < 20 {
		return err
	}
	_, err = conn.Read(make([]byte, 512))
	return err
}

func held(t *testing.T) (goroutines, descriptors int) {
	t.Helper()
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return runtime.NumGoroutine(), len(open)
}
