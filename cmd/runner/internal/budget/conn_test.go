package budget

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

func fields(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "%x:\r\n", i)
	}
	return all.String()
}

// serving answers with the length of the body, behind a listener.
func serving(t *testing.T, places *share.Places) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n)
		}),
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(Listen(l, places, MaxFields)) }()
	return l.Addr().String()
}

// What net/http reads as requests passes whatever pieces it comes in, and a head with more fields does not, wherever it
// begins.
func TestListen_BoundsTheFieldsOfEachHead(t *testing.T) {
	const host = "Host: a\r\n"
	few, many := host+fields(MaxFields-2), host+fields(MaxFields+1)
	for name, tc := range map[string]struct {
		sent string
		want []int // statuses
	}{
		"a request":        {"GET / HTTP/1.1\r\n" + few + "\r\n", []int{200}},
		"too many fields":  {"GET / HTTP/1.1\r\n" + many, []int{431}},
		"line feeds alone": {"GET / HTTP/1.1\n" + strings.ReplaceAll(many, "\r", ""), []int{431}},
		"behind a request": {"GET / HTTP/1.1\r\n" + few + "\r\nGET / HTTP/1.1\r\n" + many, []int{200, 431}},
		"behind a body": {"POST / HTTP/1.1\r\n" + host +
			"Content-length: 9\r\n\r\na\n\nb\n\n\n\n\nGET / HTTP/1.1\r\n" + many, []int{200, 431}},
		"a body of many lines": {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1000\r\n\r\n" +
			strings.Repeat("\n", 1000) + "GET / HTTP/1.1\r\n" + few + "\r\n", []int{200, 200}},
		"behind chunks": {
			"POST / HTTP/1.1\r\n" + host +
				"transfer-encoding: chunked\r\n\r\n3;x=y\r\na\n\n\r\nA\r\n0123456789\r\n0\r\n\r\nGET / HTTP/1.1\r\n" + many,
			[]int{200, 431},
		},
		"a chunk of many lines": {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3e8\r\n" +
			strings.Repeat("\n", 1000) + "\r\n0\r\n\r\nGET / HTTP/1.1\r\n" + few + "\r\n", []int{200, 200}},
		"a length and chunks": {"POST / HTTP/1.1\r\n" + host +
			"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n" + many, []int{200, 431}},
		"a length that is none": {
			"POST / HTTP/1.1\r\n" + host + "Content-Length: x\r\n\r\nGET / HTTP/1.1\r\n" + many,
			[]int{400},
		},
		"chunks of an old version": {"POST / HTTP/1.0\r\n" + host +
			"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\nGET / HTTP/1.1\r\n" + many, []int{200, 400}},
		"a path longer than a line is": {"GET /" + strings.Repeat("x", 500) + " HTTP/1.1\r\n" + few + "\r\n", []int{200}},
		"a field longer than a line is": {"POST / HTTP/1.1\r\n" + host + "A: " + strings.Repeat("x", 500) +
			"\r\nContent-Length: 1\r\n\r\n\nGET / HTTP/1.1\r\n" + many, []int{200, 431}},
	} {
		t.Run(name, func(t *testing.T) {
			address := serving(t, share.New(10, 10))
			for way, reader := range map[string]io.Reader{
				"at once":      strings.NewReader(tc.sent),
				"byte by byte": iotest.OneByteReader(strings.NewReader(tc.sent)),
			} {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				_, _ = io.Copy(conn, reader)
				_ = conn.(*net.TCPConn).CloseWrite()
				answers := bufio.NewReader(conn)
				var got []int
				for {
					response, err := http.ReadResponse(answers, nil)
					if err != nil {
						break
					}
					_, _ = io.Copy(io.Discard, response.Body)
					got = append(got, response.StatusCode)
				}
				// A head that comes with the request before it may be refused first, and one that is lost may find the connection
				// closed.
				last := tc.want[len(tc.want)-1]
				if last != http.StatusOK && served(got) <= served(tc.want) &&
					(last != http.StatusRequestHeaderFieldsTooLarge || slices.Contains(got, last)) {
					continue
				}
				if fmt.Sprint(got) != fmt.Sprint(tc.want) {
					t.Errorf("%s: got %v, want %v", way, got, tc.want)
				}
			}
		})
	}
}

// served is how many of the answers are of requests that were passed on.
func served(statuses []int) (n int) {
	for _, status := range statuses {
		if status == http.StatusOK {
			n++
		}
	}
	return n
}

// An unfinished head takes no more than its bounds: without them 9,000 fields were a megabyte.
func TestListen_EndsAHeadThatDoesNotEnd(t *testing.T) {
	address := serving(t, share.New(10, 10))
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\n"+fields(MaxFields+1))
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if status, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(status, " 431 ") {
		t.Errorf("got %q, %v", status, err)
	}
}

func TestListen_AnAddressHasItsShareOfConnections(t *testing.T) {
	places := share.New(4, 2)
	address := serving(t, places)
	open := func(from string) (net.Conn, bool) {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := dialer.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		_, err = bufio.NewReader(conn).ReadString('\n')
		return conn, err == nil
	}
	var first net.Conn
	for i := range 3 {
		conn, served := open("127.0.0.1")
		if served != (i < 2) {
			t.Errorf("connection %d is served: %v", i+1, served)
		}
		if i == 0 {
			first = conn
		}
	}
	if _, served := open("127.0.0.2"); !served {
		t.Error("another address is not served")
	}
	_ = first.Close()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, served := open("127.0.0.1"); served {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the place of a connection that has ended is not free")
		}
	}
}
