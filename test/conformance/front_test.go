package conformance

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// late looks behind the end of a request's body when told to, as a transport does that gets no time in between.
type late struct {
	http.RoundTripper
	begin, looked chan struct{}
}

func (l late) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Body = &lateBody{ReadCloser: r.Body, late: l}
	return l.RoundTripper.RoundTrip(r)
}

type lateBody struct {
	io.ReadCloser
	late late
	ends bool
}

func (b *lateBody) Read(p []byte) (int, error) {
	if !b.ends {
		n, err := b.ReadCloser.Read(p)
		b.ends = err != nil
		return n, err
	}
	defer close(b.late.looked)
	select {
	case <-b.late.begin:
	case <-time.After(patience):
	}
	return b.ReadCloser.Read(p)
}

// frontOf is a front before a server that answers with handler. done waits until all requests to it have ended.
func frontOf(t *testing.T, handler http.HandlerFunc) (front *Front, address string, done func()) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	front = NewFront(to, "secret")
	before := httptest.NewServer(front)
	t.Cleanup(before.Close)
	return front, before.URL + "/mcp", before.Close
}

// An answer that is faster than the transport arrives whole.
func TestAFrontCutsNoAnswer(t *testing.T) {
	sent := late{&http.Transport{}, make(chan struct{}), make(chan struct{})}
	front, url, done := frontOf(t, func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); string(body) != "{}" || err != nil ||
			r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("the server got %q, %v, and %v", body, err, r.Header)
		}
		_, _ = io.WriteString(w, "data: one\n")
		_ = http.NewResponseController(w).Flush()
		<-sent.looked
		select {
		case <-r.Context().Done():
		case <-time.After(100 * time.Millisecond): // in which the connection would end
		}
		_, _ = io.WriteString(w, "data: two\n")
	})
	front.reverse.Transport = sent
	response, err := http.Post(url, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer := bufio.NewReader(response.Body)
	if line, err := answer.ReadString('\n'); line != "data: one\n" || err != nil {
		t.Fatalf("the answer begins with %q, %v", line, err)
	}
	close(sent.begin)
	if line, err := answer.ReadString('\n'); line != "data: two\n" || err != nil {
		t.Errorf("the answer goes on with %q, %v", line, err)
	}
	done()
	if broken := front.Broken(); len(broken) > 0 {
		t.Errorf("broken are %q", broken)
	}
}

// What a server does not answer is told, and what a client does not wait for is not.
func TestAFrontTellsWhatWasNotAnswered(t *testing.T) {
	leave := make(chan struct{})
	front, url, done := frontOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.Header.Get("Mcp-Method") {
		case "gone":
			panic(http.ErrAbortHandler)
		case "cut":
			_, _ = io.WriteString(w, "data: one\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "starting", "unreached", "failed":
			w.Header().Set("Content-Type", "application/json")
			code := map[string]int{"starting": -32011, "unreached": -32012, "failed": -32603}[r.Header.Get("Mcp-Method")]
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"it fails"}}`, code)
		case "refused":
			w.WriteHeader(http.StatusBadRequest)
		case "left":
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(leave)
		}
	})
	for _, method := range []string{
		"gone", "cut", "busy", "starting", "unreached", "failed", "refused", "left", "answered",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Mcp-Method", method)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if method != "left" {
			_, _ = io.Copy(io.Discard, response.Body)
		}
		_ = response.Body.Close()
	}
	select {
	case <-leave:
	case <-time.After(patience):
		t.Fatal("the server was not told that its client has left")
	}
	done()
	want := []string{
		"POST gone : EOF", "POST cut : unexpected EOF", "POST busy : 503 Service Unavailable",
		"POST starting : no backend has answered", "POST unreached : the backend could not be reached",
	}
	if got := front.Broken(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("broken are %q, want %q", got, want)
	}
}
