package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

func TestEachEventIsFlushedAlone(t *testing.T) {
	next := make(chan struct{})
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		write := events(w)
		for i := range 5 {
			write(fmt.Sprintf("data: %d\n\n", i))
			<-next // the client has it: nothing comes after that could push it out
		}
	}))
	response := b.call(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
	if got := response.Header.Get("X-Accel-Buffering"); got != "no" {
		t.Errorf("X-Accel-Buffering is %q", got)
	}
	stream := bufio.NewReader(response.Body)
	for i := range 5 {
		if got, want := nextEvent(t, stream), fmt.Sprintf("data: %d\n\n", i); got != want {
			t.Fatalf("got event %q, want %q", got, want)
		}
		next <- struct{}{}
	}
}

func TestAnswersOfAStatedLengthAreNotHeldBack(t *testing.T) {
	received := make(chan struct{})
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "2")
		_, _ = io.WriteString(w, "1")
		_ = http.NewResponseController(w).Flush()
		<-received
		_, _ = io.WriteString(w, "2")
	}))
	response := b.call(http.MethodPost, "/mcp", "{}")
	if _, err := io.ReadFull(response.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	close(received)
	if got := text(t, response); got != "2" {
		t.Errorf("got %q", got)
	}
}

func TestMethodsPassThrough(t *testing.T) {
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Mcp-Session-Id", r.Header.Get("Mcp-Session-Id"))
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.RequestURI(), body)
	}))
	for _, tc := range []struct{ method, body, want string }{
		{http.MethodPost, "{}", "POST /mcp?a=1;b=%zz {}"},
		{http.MethodGet, "", "GET /mcp?a=1;b=%zz "},
		{http.MethodDelete, "", "DELETE /mcp?a=1;b=%zz "},
		{http.MethodOptions, "", "OPTIONS /mcp?a=1;b=%zz "},
	} {
		response := b.call(tc.method, "/mcp?a=1;b=%zz", tc.body, "Mcp-Session-Id", "s1")
		if got := text(t, response); got != tc.want {
			t.Errorf("the backend got %q, want %q", got, tc.want)
		}
		if response.StatusCode != http.StatusAccepted || response.Header.Get("Mcp-Session-Id") != "s1" {
			t.Errorf("%s: got %d and session %q", tc.method, response.StatusCode, response.Header.Get("Mcp-Session-Id"))
		}
	}
}

func TestOnlyTheEndpointIsServed(t *testing.T) {
	b := serve(t, Config{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s reached the backend", r.URL)
	}))
	for _, path := range []string{
		"/", "", "/mcp//", "/MCP", "/mcp/x", "//mcp", "/x/../mcp", "/%6dcp", "/mcp%2f", "/readyz",
	} {
		wantFault(t, b.call(http.MethodPost, path, "{}"), http.StatusNotFound, CodeNotServed, "the MCP endpoint is at /mcp")
	}
	for _, method := range []string{http.MethodPut, http.MethodPatch, "TRACE"} {
		response := b.call(method, "/mcp", "")
		wantFault(t, response, http.StatusMethodNotAllowed, CodeNotServed, "")
		if response.Header.Get("Allow") == "" {
			t.Error("405 without Allow")
		}
	}
}

// A redirect would name a scheme and a host that the proxy knows by hearsay, and clients take HTTP 404 for a wrong
// server.
func TestASlashAtTheEndIsNoOtherPath(t *testing.T) {
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.RequestURI())
	}))
	if got := text(t, b.call(http.MethodPost, "/mcp/?a=1", "{}")); got != "/mcp?a=1" {
		t.Errorf("the backend got %q", got)
	}
}

// A client takes HTTP 401 alone for a server with a login, and 404 for the end of its session.
func TestWhoCallsIsJudgedBeforeWhatIsAsked(t *testing.T) {
	login := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	b := serve(t, Config{Authenticate: login, Keys: session.Follow(secretOf(t, "a"), "echo-session", "uid-1")},
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			t.Errorf("%s reached the backend", r.Method)
		}))
	for method, known := range map[string]int{
		http.MethodPost: http.StatusNotFound, http.MethodGet: http.StatusNotFound, http.MethodDelete: http.StatusNotFound,
		http.MethodPut: http.StatusMethodNotAllowed, http.MethodHead: http.StatusMethodNotAllowed,
	} {
		dead := []string{protocol.HeaderSession, "of a session that is not known"}
		if got := b.call(method, "/mcp", "", dead...).StatusCode; got != http.StatusUnauthorized {
			t.Errorf("%s without a token: got %d", method, got)
		}
		if got := b.call(method, "/mcp", "", append(dead, "Authorization", "Bearer a")...).StatusCode; got != known {
			t.Errorf("%s with a token: got %d, want %d", method, got, known)
		}
	}
}

// seen returns the headers, and Host, that a backend gets.
func seen(t *testing.T, config Config, change func(*http.Request), bridged ...bool) http.Header {
	t.Helper()
	var got http.Header
	b := serve(t, config, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		got.Set("Host", r.Host)
	}))
	b.upstream.Bridged = slices.Contains(bridged, true)
	request := b.request(http.MethodPost, "/mcp", "{}")
	change(request)
	if response := b.do(request); response.StatusCode != http.StatusOK {
		t.Fatalf("got %s", response.Status)
	}
	return got
}

// sayAll sets headers of every kind that a client may think of.
func sayAll(r *http.Request) {
	r.Host = "mcp.example.com"
	for name, value := range map[string]string{
		"Authorization":            "Bearer secret",
		"Proxy-Authorization":      "Basic secret",
		"Forwarded":                "for=1.2.3.4",
		"X-Forwarded-For":          "1.2.3.4",
		"X-Forwarded-Host":         "outside.example.com",
		"X-Forwarded-Proto":        "https",
		"X-Forwarded-User":         "admin",
		"X-Real-Ip":                "1.2.3.4",
		"X-Remote-User":            "admin",
		"X-Auth-Request-Email":     "admin",
		"Impersonate-User":         "admin",
		"Connection":               "Upgrade, X-Hop",
		"Upgrade":                  "websocket",
		"X-Hop":                    "1",
		"Mcp-Param-Region":         "eu",
		"Mcp-Protocol-Version":     "2026-07-28",
		"Last-Event-Id":            "7",
		"Accept-Encoding":          "gzip",
		"Traceparent":              "00-1-2-01",
		"Cookie":                   "session=1",
		"X-Api-Key":                "k",
		"X-Brave-Api-Key":          "b",
		"X-Remote-Extra-Api-Key":   "admin",
		"X-Custom-Of-The-Customer": "1",
	} {
		r.Header.Set(name, value)
	}
}

// A bridge is told who calls by the proxy alone, and no other backend is.
func TestABridgeIsToldWhoCalls(t *testing.T) {
	for name, tc := range map[string]struct {
		bridged bool
		caller  string
		want    []string
	}{
		"a bridge":        {true, "ann", []string{pipelinetest.Payer("ann")}},
		"without a login": {true, "", nil},
		"another backend": {false, "ann", nil},
	} {
		t.Run(name, func(t *testing.T) {
			login := func(next http.Handler) http.Handler {
				return pipelinetest.As("X-Caller", next)
			}
			got := seen(t, Config{Authenticate: login}, func(r *http.Request) {
				r.Header.Set(protocol.HeaderCaller, "hash of another")
				r.Header.Set("X-Caller", tc.caller)
			}, tc.bridged)
			if told := got[protocol.HeaderCaller]; !slices.Equal(told, tc.want) {
				t.Errorf("it is told %q", told)
			}
		})
	}
}

func TestHeaders(t *testing.T) {
	common := map[string]string{
		"Host": "mcp.example.com", "Authorization": "", "Proxy-Authorization": "", "X-Real-Ip": "", "X-Remote-User": "",
		"X-Auth-Request-Email": "", "Impersonate-User": "", "Connection": "", "Upgrade": "", "X-Hop": "",
		"Mcp-Param-Region": "eu", "Mcp-Protocol-Version": "2026-07-28", "Last-Event-Id": "7", "Accept-Encoding": "gzip",
		"Traceparent": "00-1-2-01", "X-Custom-Of-The-Customer": "", "Cookie": "", "X-Api-Key": "k", "X-Brave-Api-Key": "b",
		"X-Remote-Extra-Api-Key": "",
	}
	for name, tc := range map[string]struct {
		config Config
		want   map[string]string
	}{
		"of anybody": {Config{}, map[string]string{
			"Forwarded": "", "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "mcp.example.com",
			"X-Forwarded-Proto": "http", "X-Forwarded-User": "",
		}},
		"of the public URL": {Config{Public: url.URL{Scheme: "https", Host: "MCP.example.com"}}, map[string]string{
			"X-Forwarded-Host": "mcp.example.com", "X-Forwarded-Proto": "https", "X-Forwarded-User": "",
		}},
		"of another name": {Config{Public: url.URL{Scheme: "https", Host: "other.example.com"}}, map[string]string{
			"X-Forwarded-Host": "mcp.example.com", "X-Forwarded-Proto": "http",
		}},
		"of a trusted load balancer": {Config{TrustForwardedHeaders: true}, map[string]string{
			"Forwarded": "for=1.2.3.4", "X-Forwarded-For": "1.2.3.4, 127.0.0.1", "X-Forwarded-Host": "outside.example.com",
			"X-Forwarded-Proto": "https", "X-Forwarded-User": "admin",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := seen(t, tc.config, sayAll)
			for _, want := range []map[string]string{common, tc.want} {
				for header, value := range want {
					if got.Get(header) != value {
						t.Errorf("%s is %q at the backend, want %q", header, got.Get(header), value)
					}
				}
			}
		})
	}
}

// The proxy has judged Host and page. A backend that checks them knows itself as localhost, on every way to it.
func TestABackendSeesLocalhost(t *testing.T) {
	var got http.Header
	b := serve(t, Config{AllowedOrigins: []string{"https://app.example.com"}}, http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) {
			got = r.Header.Clone()
			got.Set("Host", r.Host)
		}))
	for _, tc := range []struct{ method, body string }{
		{http.MethodPost, "{}"},
		{http.MethodPost, strings.Repeat("x", longestDirect+1)},
		{http.MethodGet, ""},
		{http.MethodDelete, ""},
	} {
		for told, want := range map[string]map[string]string{
			"localhost:3000": {"Host": "localhost:3000"},
			"": {
				"Host": "localhost:1", "Origin": "https://app.example.com", "Sec-Fetch-Site": "cross-site",
				"Sec-Fetch-Mode": "cors",
			},
		} {
			b.upstream.ToldHost = told
			request := b.request(tc.method, "/mcp", tc.body, "Origin", "https://app.example.com", "Sec-Fetch-Site", "cross-site",
				"Sec-Fetch-Mode", "cors")
			request.Host = "localhost:1"
			if status := b.do(request).StatusCode; status != http.StatusOK {
				t.Fatalf("HTTP %d", status)
			}
			for _, name := range []string{"Host", "Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode"} {
				if got.Get(name) != want[name] {
					t.Errorf("%s, told %q: %s is %q, want %q", tc.method, told, name, got.Get(name), want[name])
				}
			}
			if host := got.Get("X-Forwarded-Proto") + " " + got.Get("X-Forwarded-Host"); host != "http localhost:1" {
				t.Errorf("%s, told %q: the client's host is %q", tc.method, told, host)
			}
		}
	}
}

func TestOnlyAPostHasABody(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodOptions} {
		b := serve(t, Config{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if body, err := io.ReadAll(r.Body); len(body) > 0 || err != nil || r.ContentLength != 0 {
				t.Errorf("%s: the backend got %q of %d bytes, %v", method, body, r.ContentLength, err)
			}
		}))
		for range 20 { // on one connection, which the body must not be left in
			if response := b.call(method, "/mcp", `{"jsonrpc":"2.0"}`); response.StatusCode != http.StatusOK {
				t.Errorf("%s: got %s", method, response.Status)
			}
		}
	}
}

func TestABackendsHeadersHaveALimit(t *testing.T) {
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); len(body) > 2 {
			w.Header().Set("X-Long", strings.Repeat("x", MaxHeader))
		}
	}))
	b.call(http.MethodPost, "/mcp", "{}")
	wantFault(t, b.call(http.MethodPost, "/mcp", "{ }"), http.StatusBadGateway, CodeBackendUnreachable,
		"BackendUnreachable")
}

func TestTrustedLoadBalancerThatSaysNothing(t *testing.T) {
	got := seen(t, Config{TrustForwardedHeaders: true}, func(r *http.Request) { r.Host = "mcp.example.com" })
	if got.Get("X-Forwarded-Host") != "mcp.example.com" || got.Get("X-Forwarded-Proto") != "http" ||
		got.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("got %v", got)
	}
}

func TestBodyIsCapped(t *testing.T) {
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n)
	}))
	whole := bytes.Repeat([]byte(" "), budget.MaxBody)
	if got := text(t, b.call(http.MethodPost, "/mcp", string(whole))); got != fmt.Sprint(budget.MaxBody) {
		t.Errorf("the backend got %s bytes of %d", got, budget.MaxBody)
	}
	tooLong := append(whole, ' ')
	wantFault(t, b.call(http.MethodPost, "/mcp", string(tooLong)), http.StatusRequestEntityTooLarge,
		budget.CodeBodyRefused,
		"4194304")

	chunked := b.request(http.MethodPost, "/mcp", "")
	chunked.Body, chunked.ContentLength = io.NopCloser(bytes.NewReader(tooLong)), -1
	wantFault(t, b.do(chunked), http.StatusRequestEntityTooLarge, budget.CodeBodyRefused, "4194304")
}

// What says that it is too long is refused before a byte of it is read.
func TestALengthIsJudgedBeforeTheBody(t *testing.T) {
	b := serve(t, Config{}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a call reached the backend")
	}))
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", budget.MaxBody+1)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantFault(t, response, http.StatusRequestEntityTooLarge, budget.CodeBodyRefused, "4194304")
}

func TestRefusalAnswersEveryCall(t *testing.T) {
	const refusal = "NotEnforced: spec.authzConfig is set, and this version does not enforce it"
	b := serve(t, Config{Refusal: refusal}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a call reached the backend")
	}))
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		response := b.call(method, "/mcp", "")
		want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32010,"message":"` + refusal + `"}}` + "\n"
		if got := text(t, response); got != want || response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: got %s and %s", method, response.Status, got)
		}
	}
}

func TestBackendThatIsNotThere(t *testing.T) {
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	address := upstream.Listener.Addr().String()
	if err := upstream.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	b := front(t, Config{}, "http://"+address)
	response := b.call(http.MethodPost, "/mcp", "{}")
	wantFault(t, response, http.StatusServiceUnavailable, CodeBackendStarting,
		"has not answered yet: it refuses connections")
	if response.Header.Get("Retry-After") != "2" {
		t.Errorf("Retry-After is %q", response.Header.Get("Retry-After"))
	}

	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	upstream.Listener = listener
	upstream.Start()
	if response := b.call(http.MethodPost, "/mcp", "{}"); response.StatusCode != http.StatusOK {
		t.Fatalf("got %s", response.Status)
	}
	pipelinetest.Stop(upstream)
	b.upstream.dialer.Patience = 200 * time.Millisecond
	for _, least := range []time.Duration{b.upstream.dialer.Patience / 2, 0} {
		began := time.Now()
		wantFault(t, b.call(http.MethodPost, "/mcp", "{}"), http.StatusBadGateway, CodeBackendUnreachable,
			"it refuses connections")
		if took := time.Since(began); took < least {
			t.Errorf("a call waited %s for another pod, want at least %s", took, least)
		}
		// Now that none is there, nobody waits for one.
		b.upstream.dialer.Patience = time.Hour
	}
}

func TestBackendWhoseNameIsUnknown(t *testing.T) {
	b := front(t, Config{}, "http://no-such-backend.invalid:80")
	wantFault(t, b.call(http.MethodPost, "/mcp", "{}"), http.StatusServiceUnavailable, CodeBackendStarting,
		"its name cannot be resolved")
}

func TestBackendThatHangsUpBeforeItAnswers(t *testing.T) {
	var calls atomic.Int32
	b := serve(t, Config{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if calls.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
	}))
	b.call(http.MethodPost, "/mcp", "{}")
	wantFault(t, b.call(http.MethodPost, "/mcp", "{}"), http.StatusBadGateway, CodeBackendUnreachable,
		"broke the connection off")
	if n := calls.Load(); n != 2 {
		t.Errorf("the backend saw %d calls: a call that may have run was repeated", n)
	}
}

// A client sees as much of an answer that is not whole as it would without a proxy: a status may be all that it wants.
func TestAnAnswerThatIsNotWholeHasItsStatus(t *testing.T) {
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", "7")
		w.WriteHeader(http.StatusMethodNotAllowed)
		_, _ = io.WriteString(w, "short")
	}))
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		response := b.call(method, "/mcp", "{}")
		body, err := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusMethodNotAllowed || string(body) != "short" ||
			!errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: HTTP %d with %q, %v", method, response.StatusCode, body, err)
		}
	}
}

func TestBackendThatSwitchesProtocols(t *testing.T) {
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
	}))
	response := b.call(http.MethodGet, "/mcp", "", "Connection", "Upgrade", "Upgrade", "websocket")
	if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text(t, response), "BackendStarting") {
		t.Errorf("got %s", response.Status)
	}
}
