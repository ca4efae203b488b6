package proxy

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// sight is what a call sees of its answer.
type sight struct {
	failed, broken  bool // before the answer, or in its body
	status          string
	header, trailer http.Header
	length          int64
	body            string
}

func (s sight) equal(other sight) bool {
	return s.failed == other.failed && s.broken == other.broken && s.status == other.status && s.length == other.length &&
		s.body == other.body && maps.EqualFunc(s.header, other.header, slices.Equal) &&
		maps.EqualFunc(s.trailer, other.trailer, slices.Equal)
}

// see makes a call whose answer is bytes of somebody else's.
func see(t *testing.T, by http.RoundTripper, address, body string) (s sight) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	response, err := by.RoundTrip(callTo(ctx, t, address, body))
	if err != nil {
		return sight{failed: true}
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	s.status, s.header, s.trailer, s.length = response.Status, response.Header, response.Trailer, response.ContentLength
	s.body, s.broken = string(data), err != nil
	return s
}

// hostile makes a call to a backend that answers the first one with anything, and others well.
func hostile(t *testing.T, answer []byte, by http.RoundTripper) (s sight, address string) {
	t.Helper()
	var mu sync.Mutex
	over := false
	address = script(t, func(conn net.Conn, calls *bufio.Reader) {
		for {
			body, err := next(calls)
			switch {
			case err != nil:
				return
			case body == "second":
				_, _ = io.WriteString(conn, ok)
			default:
				_, _ = conn.Write(answer)
				time.AfterFunc(50*time.Millisecond, func() { // what is not whole is not waited for
					mu.Lock()
					defer mu.Unlock()
					if !over {
						_ = conn.Close()
					}
				})
			}
		}
	})
	s = see(t, by, address, "first")
	mu.Lock()
	defer mu.Unlock()
	over = true
	return s, address
}

// FuzzDirect holds what a call sees in its own goroutine against what it sees through http.Transport, whatever a
// backend answers; and looks whether the next call gets its own answer.
func FuzzDirect(f *testing.F) {
	for _, answer := range []string{
		ok, "", "\r\n\r\n", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK\r\n\r\nall of it", "HTTP/1.0 200 OK\r\n\r\nall of it",
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", ok + "longer", ok + ok,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nok\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
		"HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 20\r\n\r\n", "HTTP/1.1 099 Low\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 999 High\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n" + ok, "HTTP/1.1 103 Hint\r\nX: 1\r\n\r\nHTTP/1.1 103 Hint\r\nX: 2\r\n\r\n" + ok,
		"HTTP/1.1 100 Continue\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX : y\r\n\r\n", "HTTP/1.1 200 OK\r\nX: y\r\n folded\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "HTTP/2.0 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nX: \x00\x01\r\nContent-Length: 0\r\n\r\n", "ICY 200 OK\r\n\r\n",
	} {
		f.Add([]byte(answer), uint32(0))
		f.Add([]byte(answer), uint32(5))
	}
	f.Add([]byte(ok), uint32(MaxHeader-100))
	f.Add([]byte(ok), uint32(MaxHeader+20))
	f.Fuzz(func(t *testing.T, answer []byte, padding uint32) {
		if strings.Contains(string(answer), " 101") {
			t.Skip("nobody switches protocols: TestBackendThatSwitchesProtocols")
		}
		// Long headers, without a fuzzer's having to find them.
		if at := strings.Index(string(answer), "\r\n"); at > 0 && padding > 0 {
			answer = slices.Concat(answer[:at], []byte("\r\nPad: "+strings.Repeat("x", int(padding%(2*MaxHeader)))), answer[at:])
		}
		reference := &http.Transport{DisableCompression: true, MaxResponseHeaderBytes: MaxHeader}
		defer reference.CloseIdleConnections()
		direct := wired(t)
		want, _ := hostile(t, answer, reference)
		got, address := hostile(t, answer, direct)
		if !got.equal(want) {
			t.Errorf("%.300q\ngot  %+.500v\nwant %+.500v", answer, got, want)
		}
		if second := see(t, direct, address, "second"); second.status != "200 OK" || second.body != "ok" {
			t.Errorf("%.300q\nthe next call got %+v", answer, second)
		}
	})
}
