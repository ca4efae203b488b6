package proxy

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

func TestCallsAreKnownByTheirBody(t *testing.T) {
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"a"}`:    `1`,
		`{"jsonrpc":"2.0","id":"x","method":"a"}`:  `"x"`,
		`{"jsonrpc":"2.0","method":"a"}`:           ``, // a notification
		`{"jsonrpc":"2.0","id":1,"result":{}}`:     ``, // a response
		`{"jsonrpc":"2.0","id":null,"method":"a"}`: ``,
		`[{"jsonrpc":"2.0","id":1,"method":"a"}]`:  ``,
		`{"jsonrpc":"2.0","id":1,"met`:             ``,
	} {
		r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
		b := limited(httptest.NewRecorder(), r)
		if _, ok := b.call(); ok {
			t.Errorf("%s: known before it was read", body)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Fatal(err)
		}
		if c, ok := b.call(); ok != (want != "") || ok && string(c.ID) != want {
			t.Errorf("%s: got id %s, %v", body, c.ID, ok)
		}
	}
}

// closing is a body that was closed at its end, as the server does when the
// answer begins.
type closing struct{ read bool }

func (c *closing) Read(p []byte) (int, error) {
	if c.read {
		return 0, http.ErrBodyReadAfterClose
	}
	c.read = true
	return copy(p, "{}"), io.EOF
}

// The transport asks once more whether there is nothing behind a body of a
// stated length. If the answer is an error, the backend's is cut short: a bare
// ReverseProxy loses calls that way on a busy machine. MaxBytesReader is what
// stays at the end.
func TestBodyStaysAtItsEnd(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/mcp", io.NopCloser(new(closing)))
	r.ContentLength = 2
	limited(httptest.NewRecorder(), r)
	if body, err := io.ReadAll(r.Body); string(body) != "{}" || err != nil {
		t.Fatalf("got %q, %v", body, err)
	}
	if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("asked again it says %v, which cuts the answer short", err)
	}
}

type slow struct{ error }

func (s slow) Read([]byte) (int, error) { return 0, s.error }

func TestBodyHasALimitOfTime(t *testing.T) {
	var deadlines []time.Time
	record := func(d time.Time) error {
		deadlines = append(deadlines, d)
		return nil
	}
	b := &callBody{ReadCloser: io.NopCloser(slow{os.ErrDeadlineExceeded}), deadline: record}
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || !b.overdue() {
		t.Errorf("got %v, overdue %v", err, b.overdue())
	}
	b = &callBody{ReadCloser: io.NopCloser(strings.NewReader("")), deadline: record}
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || b.overdue() {
		t.Errorf("got %v, overdue %v", err, b.overdue())
	}
	if len(deadlines) != 1 || !deadlines[0].IsZero() {
		t.Errorf("after the body the deadlines set are %v, want one that takes it back", deadlines)
	}
}

func TestBodyThatComesTooLate(t *testing.T) {
	b := front(t, Config{}, "http://127.0.0.1:1")
	r := httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody)
	flight, ctx := b.proxy.traffic.begin(r, &callBody{late: true})
	defer b.proxy.traffic.end(flight)
	w := httptest.NewRecorder()
	b.proxy.failed(w, r.WithContext(ctx), os.ErrDeadlineExceeded)
	wantFault(t, w.Result(), http.StatusRequestTimeout, CodeBodyRefused, "longer than 1m0s")
}
