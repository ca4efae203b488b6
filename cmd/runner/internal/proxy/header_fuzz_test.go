package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// FuzzHeaders sends what a client may send, byte for byte, through a real
// server, the proxy and a real transport to a backend that answers what it
// may, and compares what went in with what came out on either side.
//
// lines and answer are header lines of the request and of the response.
func FuzzHeaders(f *testing.F) {
	for _, seed := range headerSeeds {
		f.Add(seed.lines, seed.body, seed.answer, seed.trust)
	}
	plain, trusting := newTwoEnds(f, false), newTwoEnds(f, true)
	f.Fuzz(func(t *testing.T, lines, body, answer string, trust bool) {
		ends := plain
		if trust {
			ends = trusting
		}
		raw := "POST /mcp HTTP/1.1\r\n" + lines + "\r\n\r\n" + body
		in, ok := reference(raw)
		if !ok {
			t.Skip("more is announced than sent")
		}
		got := ends.exchange(t, raw, "HTTP/1.1 200 OK\r\n"+answer+"\r\n\r\n{}")
		if len(got.requests) > 1 {
			t.Fatalf("one request became %d:\n%q", len(got.requests), got.requests)
		}
		if len(got.requests) == 1 {
			if in == nil {
				t.Fatalf("what is no request was passed on:\n%q", got.requests[0])
			}
			judgeRequest(t, in, got.requests[0], ends.upstream.Host(), trust)
			if got.response != "" {
				judgeResponse(t, in.Header["Origin"], answer, got.response)
			}
		}
	})
}

// headerSeeds are requests that somebody sends, for good or bad.
var headerSeeds = []struct {
	lines, body, answer string
	trust               bool
}{
	{"Host: echo-proxy\r\nContent-Length: 2\r\nMcp-Session-Id: s1\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: " +
		"tools/call\r\nMcp-Name: =?base64?w6k=?=\r\nMcp-Param-User_id: 7\r\nMcp_Session_Id: s2\r\nMcp-Session_Id: s2\r\n" +
		"Mcp_Param-User: 8", "{}", "Content-Type: application/json\r\nMcp-Session-Id: s1\r\nContent-Length: 2", false},
	{
		"Host: echo-proxy\r\nTransfer-Encoding: chunked\r\nTrailer: X-Forwarded-User",
		"2\r\n{}\r\n0\r\nX-Forwarded-User: admin\r\n\r\n", "Content-Type: text/event-stream", false,
	},
	{
		"Host: echo-proxy\r\nContent-Length: 2\r\nTransfer-Encoding: chunked", "0\r\n\r\nGET /mcp HTTP/1.1\r\n\r\n", "",
		false,
	},
	{
		"Host: lb.example.com\r\nContent-Length: 2\r\nConnection: close, X-Forwarded-User\r\nX-Forwarded-User: admin\r\n" +
			"X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5.6.7.8\r\nForwarded: for=1.2.3.4", "{}",
		"Connection: Mcp-Session-Id\r\nMcp-Session-Id: hop", true,
	},
	{"Host: lb.example.com\r\nContent-Length: 2\r\nConnection: close,x-forwarded-for , Forwarded\r\nX_Forwarded_User: " +
		"admin\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nX-Forwarded-User: admin", "{}", "", true},
	{
		"Host: echo-proxy\r\nContent-Length: 2\r\nX_Forwarded_User: admin\r\nREMOTE_USER: admin\r\nImpersonate_User: " +
			"admin\r\nAuthorization: Bearer x\r\nX-Auth-Request-Email: a\r\nX-Auth-Request-Api-Key: a\r\nX-Api-Key: k\r\n" +
			"Remote-Groups: a\r\nClient-Cert: a\r\nX-Amzn-Oidc-Identity: a\r\nCookie: a=b", "{}",
		"Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c", false,
	},
	{
		"Host: echo-proxy\r\nContent-Length: 2\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: " +
			"AAMA\r\nTE: trailers, deflate\r\nProxy-Connection: keep-alive", "{}",
		"Trailer: X-After\r\nTransfer-Encoding: chunked", false,
	},
	{
		"Host: echo-proxy:8000\r\nContent-Length: 2\r\nOrigin: http://echo-proxy:8000\r\nSec-Fetch-Site: same-origin", "{}",
		"Set-Cookie: a=b\r\nSet-Cookie: c=d", false,
	},
	{
		"Host: evil.example.net\r\nContent-Length: 2\r\nOrigin: http://evil.example.net\r\nSec-Fetch-Site: same-origin", "{}",
		"", false,
	},
	{
		"Host: echo-proxy\r\nContent-Length: 2\r\nOrigin: https://app.example.com\r\nOrigin: https://evil.example.net", "{}",
		"", false,
	},
	{
		"Host: echo-proxy\r\nContent-Length: 2\r\nOrigin:\r\nOrigin: https://evil.example.net", "{}",
		"Content-Length: 2\r\nContent-Length: 3", false,
	},
	{
		"Host: echo-proxy\r\nContent-Length: 2\r\nOrigin: https://app.example.com", "{}",
		"Vary: Accept\r\nAccess-Control-Allow-Origin: *\r\nAlt-Svc: clear", false,
	},
	{"Host: echo-proxy\r\nContent-Length: 2\r\nExpect: 100-continue\r\nUser-Agent:\r\nAccept-Encoding: gzip\r\n" +
		"X-Folded: a\r\n b", "{}", "Content-Encoding: gzip\r\nX-Accel-Buffering: yes", false},
}

// reference is how the standard library reads a request: nil if it is none. ok
// is false if the server would wait for more.
func reference(raw string) (r *http.Request, ok bool) {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
	if err != nil {
		return nil, !cutShort(err)
	}
	_, err = io.Copy(io.Discard, r.Body)
	return r, !cutShort(err)
}

// cutShort reports whether a message has no end; the library has an error of
// its own for each part that is missing.
func cutShort(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "EOF") || strings.Contains(err.Error(), "trailer"))
}

// hop are the headers of one connection
// (https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1).
var hop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// ofOneHop are the names that a message may not leave its connection with.
func ofOneHop(header http.Header) map[string]bool {
	names := map[string]bool{}
	for _, name := range hop {
		names[name] = true
	}
	for _, line := range header["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			names[textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))] = true
		}
	}
	return names
}

// judgeRequest compares what the client said with the bytes that the backend got.
func judgeRequest(t *testing.T, in *http.Request, raw, backend string, trust bool) {
	t.Helper()
	host, header := split(t, raw)
	// Who names no host asks whoever listens; the backend is told its own name.
	if host != in.Host && (in.Host != "" || host != backend) {
		t.Errorf("Host %q became %q", in.Host, host)
	}
	if !mayPass(in) {
		t.Errorf("passed with Host %q, Origin %q and Sec-Fetch-Site %q", in.Host, in.Header["Origin"],
			in.Header["Sec-Fetch-Site"])
	}
	dropped := ofOneHop(in.Header)
	said := http.Header{} // what a backend may read of the client's
	for name, values := range in.Header {
		if !dropped[name] && mayBeSaid(name, trust) {
			said[name] = values
		}
	}
	forwarded := "127.0.0.1"
	if prior := said["X-Forwarded-For"]; len(prior) > 0 {
		forwarded = strings.Join(prior, ", ") + ", " + forwarded
	}
	said["X-Forwarded-For"] = []string{forwarded}
	for name, value := range map[string]string{"X-Forwarded-Host": in.Host, "X-Forwarded-Proto": "http"} {
		if len(said[name]) == 0 {
			said[name] = []string{value}
		}
	}
	// The transport says these for its own connection.
	for _, name := range []string{"Content-Length", "Transfer-Encoding"} {
		delete(header, name)
		delete(said, name)
	}
	if te := header["Te"]; len(te) == 1 && te[0] == "trailers" { // we do read them
		delete(header, "Te")
	}
	if agent := said.Get("User-Agent"); agent != "" {
		said["User-Agent"] = []string{agent}
	} else {
		delete(said, "User-Agent")
	}
	same(t, "request", said, header)
}

// mayPass is the rule of origins, in other words: no page of a browser but
// those that are listed, and those that came from us.
func mayPass(r *http.Request) bool {
	origins, site := r.Header["Origin"], r.Header.Get("Sec-Fetch-Site")
	switch {
	case len(origins) > 1:
		return false
	case len(origins) == 0 || origins[0] == "":
		return site == "" || isOurs(r.Host) && (site == "same-origin" || site == "none")
	case origins[0] == "https://app.example.com":
		return true
	}
	origin, err := url.Parse(origins[0])
	return isOurs(r.Host) && (site == "same-origin" || site == "none" || site == "" && err == nil && origin.Host == r.Host)
}

func isOurs(hostport string) bool {
	// Whatever stands behind the colon of a name is no part of it, a port or not.
	host, _, _ := strings.Cut(hostport, ":")
	if strings.Count(hostport, ":") > 1 {
		host = (&url.URL{Host: hostport}).Hostname() // an IPv6 address
	}
	return strings.EqualFold(host, "echo-proxy") || strings.EqualFold(host, "localhost") ||
		strings.HasSuffix(strings.ToLower(host), ".localhost") || net.ParseIP(strings.Trim(host, "[]")) != nil
}

// sayable are the names that a client may say to a backend, as docs/security.md has
// them.
var sayable = regexp.MustCompile(
	`^(accept|accept-encoding|accept-language|cache-control|content-encoding|content-length|content-type|expect|user-agent|` +
		`last-event-id|mcp-.*|origin|sec-fetch-(site|mode|dest)|access-control-request-(method|headers)|` +
		`traceparent|tracestate|baggage|b3|x-b3-.*|x-request-id|x-correlation-id|.*api-?key)$`)

// mayBeSaid reports whether a client may say this to a backend. Nobody may in a
// spelling that CGI and what follows it read as another, but for parameters, where tools
// choose the names.
func mayBeSaid(name string, trust bool) bool {
	low := strings.ToLower(name)
	switch {
	case strings.Contains(low, "_"):
		return strings.HasPrefix(low, "mcp-param-")
	case strings.HasPrefix(low, "x-forwarded-"), low == "forwarded":
		return trust
	case strings.HasPrefix(low, "x-remote-"), strings.HasPrefix(low, "x-auth-request-"),
		strings.HasPrefix(low, "impersonate-"):
		return false
	}
	return sayable.MatchString(low)
}

// ofHost are names of headers that no backend says, lower-case: about the host, its logins, and which pages may read.
var ofHost = regexp.MustCompile(
	`^(www-authenticate|set-cookie|clear-site-data|strict-transport-security|alt-svc|service-worker-allowed|` +
		`nel|report-to|reporting-endpoints|access-control-.*)$`)

// judgeResponse compares what the backend said with the bytes that the client got.
func judgeResponse(t *testing.T, origin []string, answer, raw string) {
	t.Helper()
	if !strings.HasPrefix(raw, "HTTP/1.1 200 OK\r\n") {
		return // an answer of the proxy's own
	}
	_, header := split(t, raw)
	out, err := http.ReadResponse(bufio.NewReader(strings.NewReader("HTTP/1.1 200 OK\r\n"+answer+"\r\n\r\n{}")), nil)
	if err != nil {
		t.Fatalf("passed on although %v:\n%q", err, raw)
	}
	dropped := ofOneHop(out.Header)
	said := http.Header{}
	for name, values := range out.Header {
		// The client in front of the backend takes a name with a space; nobody else should.
		if !dropped[name] && !strings.Contains(name, " ") && !ofHost.MatchString(strings.ToLower(name)) {
			said[name] = values
		}
	}
	said["Vary"] = append([]string{"Origin"}, said["Vary"]...)
	if slices.Equal(origin, []string{"https://app.example.com"}) {
		said["Access-Control-Allow-Origin"], said["Access-Control-Expose-Headers"] = origin,
			[]string{"Mcp-Session-Id, WWW-Authenticate, Retry-After"}
	}
	if eventStream(out) {
		said["X-Accel-Buffering"] = []string{"no"}
	}
	if connection := header["Connection"]; slices.Equal(connection, []string{"close"}) {
		delete(header, "Connection") // our own, to this client
	}
	// The server says these for its own connection, and since when it is now.
	own := []string{"Content-Length", "Transfer-Encoding", "Trailer"}
	if len(said["Date"]) == 0 {
		own = append(own, "Date")
	}
	for _, name := range own {
		delete(header, name)
		delete(said, name)
	}
	same(t, "response", said, header)
}

func same(t *testing.T, what string, said, header http.Header) {
	t.Helper()
	for name, values := range said {
		if !slices.Equal(values, header[name]) {
			t.Errorf("%s: %s should be %q, is %q", what, name, values, header[name])
		}
	}
	for name, values := range header {
		if _, ok := said[name]; !ok {
			t.Errorf("%s: %s is %q and should not be there", what, name, values)
		}
	}
}

// split reads the lines of a message's head as anybody's parser might, and
// fails where two parsers could read them differently.
func split(t *testing.T, raw string) (host string, header http.Header) {
	t.Helper()
	header = http.Header{}
	lines := strings.Split(strings.TrimSuffix(raw, "\r\n\r\n"), "\r\n")
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") || strings.ContainsAny(line, "\r\n\x00") {
			t.Fatalf("a line %q in the head %q", line, raw)
		}
		if name == "Host" && len(header) == 0 {
			host = strings.TrimPrefix(value, " ")
			continue
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		header[name] = append(header[name], textproto.TrimString(value))
	}
	return host, header
}

// twoEnds is a proxy with a client's end and a backend's end.
type twoEnds struct {
	*bench
	mu  sync.Mutex // guards what is below
	got exchange
	say string
	bad any
}

// exchange is what was seen of one call: heads as bytes.
type exchange struct {
	requests []string
	response string
}

func newTwoEnds(f *testing.F, trust bool) *twoEnds {
	f.Helper()
	e := &twoEnds{}
	backend := script(f, func(conn net.Conn, calls *bufio.Reader) { // notes a request and answers it
		head := readHead(calls)
		e.mu.Lock()
		e.got.requests = append(e.got.requests, head)
		say := e.say
		e.mu.Unlock()
		_, _ = io.WriteString(conn, say)
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, calls) // the body
	})
	e.bench = front(f, Config{
		AllowedOrigins: []string{"https://app.example.com"}, Hosts: []string{"echo-proxy"}, TrustForwardedHeaders: trust,
	}, "http://"+backend)
	e.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if bad := recover(); bad != nil {
				if bad != http.ErrAbortHandler { //nolint:errorlint // the value itself is what is thrown
					e.mu.Lock()
					e.bad = bad
					e.mu.Unlock()
				}
				panic(http.ErrAbortHandler)
			}
		}()
		e.proxy.ServeHTTP(w, r)
	})
	return e
}

// exchange makes one call.
func (e *twoEnds) exchange(t *testing.T, raw, answer string) exchange {
	t.Helper()
	e.upstream.young().CloseIdleConnections() // the backend takes one call of each
	e.mu.Lock()
	e.got, e.say, e.bad = exchange{}, answer, nil
	e.mu.Unlock()
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	go func() { _, _ = io.WriteString(conn, raw) }()
	response := readHead(bufio.NewReader(conn))
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bad != nil {
		t.Fatalf("panic: %v", e.bad)
	}
	if response == "" && whole(answer) {
		t.Fatal("no answer at all")
	}
	got := e.got
	got.response = response
	return got
}

// whole reports whether an answer ends as it should. One that does not may cut
// the client's before its head has left.
func whole(answer string) bool {
	response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil
}

// readHead reads up to the first empty line.
func readHead(r *bufio.Reader) string {
	var head strings.Builder
	for {
		line, err := r.ReadString('\n')
		head.WriteString(line)
		if err != nil || line == "\r\n" {
			return head.String()
		}
	}
}
