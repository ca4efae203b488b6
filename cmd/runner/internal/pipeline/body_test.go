package pipeline

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
	"github.com/freehold-dev/freehold/controllers/authz"
)

// begun is a request with a body, and its call.
func begun(t *testing.T, memory *budget.Budget, body io.Reader, length int64) (*http.Request, *Call) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/mcp", body)
	r.ContentLength = length
	c := New(nil, httptest.NewRecorder(), r, memory)
	c.Authenticated(authz.Caller{Issuer: "https://issuer.example.com", Subject: "ann"})
	return r, c
}

// free reports whether nothing counts for a caller.
func free(memory *budget.Budget, c *Call) bool {
	leave, err := memory.Bodies.Take(c.Payer(), int64(share.Half(budget.Default/8)))
	if err == nil {
		leave()
	}
	return err == nil
}

func TestCallsAreKnownByTheirBody(t *testing.T) {
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"a"}`:    `1`,
		`{"jsonrpc":"2.0","id":"x","method":"a"}`:  `"x"`,
		`{"jsonrpc":"2.0","method":"a"}`:           ``, // a notification
		`{"jsonrpc":"2.0","id":1,"result":{}}`:     ``, // a response
		`{"jsonrpc":"2.0","id":null,"method":"a"}`: ``,
		`[{"jsonrpc":"2.0","id":1,"method":"a"}]`:  ``,
		`{"jsonrpc":"2.0","id":1,"met`:             ``,

		`{"method":"a","jsonrpc":"2.0","id": "\"}\u00e9\\" }`: `"\"}\u00e9\\"`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}`:        ``, // readers differ
		`{"jsonrpc":"2.0","id":{"id":1},"method":"a"}`:        ``,
		`{"jsonrpc":"2.0","id":01,"method":"a"}`:              ``,
	} {
		long := strings.Replace(body, "{", `{"params":{"id":9,"method":"b","x":"`+strings.Repeat(`\"{`, Short)+`","id":8},`, 1)
		for name, first := range map[string]func(*http.Request, *Body){
			"passing":      func(*http.Request, *Body) {},
			"long":         func(_ *http.Request, b *Body) { b.from = io.NopCloser(strings.NewReader(long)) },
			"as a whole":   func(r *http.Request, b *Body) { _, _, _ = b.Messages(r) },
			"made by ours": nil,
		} {
			r, c := begun(t, budget.New(budget.Default), strings.NewReader(body), int64(len(body)))
			if first == nil {
				c.Body = Made([]byte(body), []byte(want))
				r.Body = c.Body
			} else if c.Body.ID() != nil {
				t.Errorf("%s: known before it was read", body)
			} else {
				first(r, c.Body)
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Fatal(err)
			}
			if id := c.Body.ID(); string(id) != want {
				t.Errorf("%s, %s: got id %s", body, name, id)
			}
			if n := testing.AllocsPerRun(10, func() { c.Body.ID() }); n > 0 && want != "" {
				t.Errorf("%s, %s: it is parsed again each time, with %v allocations", body, name, n)
			}
			if c.Body.End(); c.Body.ID() != nil {
				t.Errorf("%s, %s: its id is kept when it has ended", body, name)
			}
		}
	}
}

// counted counts how often a body is read to its end.
type counted struct {
	io.Reader
	ends int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		c.ends++
	}
	return n, err
}

// A body is read once and taken apart once, however many handlers ask for it, and goes on as it came.
func TestABodyIsReadAndTakenApartOnce(t *testing.T) {
	for _, size := range []int{10, budget.Least + 1, budget.Long + 1, 1 << 20} {
		for _, announced := range []bool{true, false} {
			text := `{"jsonrpc":"2.0","id":7,"method":"a","params":{"x":"` + strings.Repeat("x", size) + `"}}`
			length, from := int64(-1), &counted{Reader: strings.NewReader(text)}
			if announced {
				length = int64(len(text))
			}
			memory := budget.New(budget.Default)
			r, c := begun(t, memory, from, length)
			first, _, err := c.Body.Messages(r)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				again, batch, err := c.Body.Messages(r)
				if err != nil || batch || &again[0] != &first[0] {
					t.Errorf("%d bytes are taken apart again: %v", size, err)
				}
			}
			if r.ContentLength != int64(len(text)) || size > budget.Least && free(memory, c) {
				t.Errorf("a request of %d bytes goes on with %d, which count: %v", len(text), r.ContentLength, !free(memory, c))
			}
			if got, err := io.ReadAll(r.Body); err != nil || string(got) != text || from.ends != 1 {
				t.Errorf("%d bytes go on, %v, read %d times", len(got), err, from.ends)
			}
			if !free(memory, c) || c.Body.text != nil || c.Body.messages != nil || string(c.Body.ID()) != "7" {
				t.Errorf("what is kept of a body that was sent is more than its id: %s", c.Body.ID())
			}
		}
	}
}

// A body that may be sent again, in another form, is kept until it is known that it is not.
func TestABodyIsKeptWhileItMayBeSentAgain(t *testing.T) {
	memory := budget.New(budget.Default)
	text := `{"jsonrpc":"2.0","id":7,"method":"` + strings.Repeat("x", budget.Long) + `"}`
	r, c := begun(t, memory, strings.NewReader(text), int64(len(text)))
	if _, _, err := c.Body.Messages(r); err != nil {
		t.Fatal(err)
	}
	done := c.Body.Keep()
	if sent, whole := c.Body.Take(); !whole || string(sent) != text || free(memory, c) {
		t.Errorf("%d bytes are sent, %v, and count: %v", len(sent), whole, !free(memory, c))
	}
	if done(); !free(memory, c) || c.Body.text != nil {
		t.Error("it is kept")
	}
	if _, whole := c.Body.Take(); !whole {
		return
	}
	if rest, err := io.ReadAll(r.Body); len(rest) > 0 || err != nil {
		t.Errorf("%d bytes are sent again, %v", len(rest), err)
	}
}

func TestABodyThatIsRefused(t *testing.T) {
	memory := budget.New(budget.Default)
	for name, tc := range map[string]struct {
		body   io.Reader
		status int
	}{
		"too long":       {bytes.NewReader(make([]byte, budget.MaxBody+1)), http.StatusRequestEntityTooLarge},
		"too late":       {iotest.ErrReader(os.ErrDeadlineExceeded), http.StatusRequestTimeout},
		"with an error":  {iotest.ErrReader(io.ErrUnexpectedEOF), http.StatusBadRequest},
		"without a room": {iotest.ErrReader(budget.ErrBusy), http.StatusServiceUnavailable},
	} {
		r, c := begun(t, memory, tc.body, -1)
		_, _, err := c.Body.Messages(r)
		if f := c.Body.Fault(err); f == nil || f.Status != tc.status {
			t.Errorf("%s: got %v, which is %v", name, err, f)
		}
		c.Body.End()
		if !free(memory, c) {
			t.Errorf("%s: something is kept", name)
		}
	}
}

// Of a long body that passes the id alone is kept, whether or not it has said how long it is, and counts for nobody.
func TestOfALongBodyTheIDIsKept(t *testing.T) {
	text := `{"jsonrpc":"2.0","method":"tools/call","params":{"x":"` + strings.Repeat("x", budget.Long) + `"},"id":7}`
	for _, length := range []int64{-1, int64(len(text))} {
		memory := budget.New(budget.Default)
		r, c := begun(t, memory, strings.NewReader(text), length)
		if _, err := io.CopyN(io.Discard, r.Body, 2*Short); err != nil || c.Body.text != nil || c.Body.ID() != nil {
			t.Errorf("%d bytes are kept of what has come, and its id is %s, %v", len(c.Body.text), c.Body.ID(), err)
		}
		_, err := io.Copy(io.Discard, r.Body)
		if call := c.Body.Call(); err != nil || string(call.ID) != "7" || call.Method != "tools/call" {
			t.Errorf("the call is %v, %v", call, err)
		}
		if c.Body.text != nil || !free(memory, c) {
			t.Error("the body is kept while its call is answered")
		}
		if c.Body.End(); c.Body.skim != nil || c.Body.ID() != nil {
			t.Error("something is kept of a call that has ended")
		}
	}
}

// closing is a body that was closed at its end, as the server does when the answer begins.
type closing struct{ read bool }

func (c *closing) Read(p []byte) (int, error) {
	if c.read {
		return 0, http.ErrBodyReadAfterClose
	}
	c.read = true
	return copy(p, "{}"), io.EOF
}

// The transport asks once more whether there is nothing behind a body of a stated length. If the answer is an error,
// the backend's is cut short: a bare ReverseProxy loses calls that way on a busy machine. MaxBytesReader is what stays
// at the end.
func TestBodyStaysAtItsEnd(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/mcp", io.NopCloser(new(closing)))
	r.ContentLength = 2
	ctx, end := context.WithCancel(t.Context())
	end() // nothing waits for this call
	r = r.WithContext(ctx)
	New(nil, httptest.NewRecorder(), r, budget.New(budget.Default))
	if body, err := io.ReadAll(r.Body); string(body) != "{}" || err != nil {
		t.Fatalf("got %q, %v", body, err)
	}
	if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("asked again it says %v, which cuts the answer short", err)
	}
}

func TestBodyHasALimitOfTime(t *testing.T) {
	var deadlines []time.Time
	record := func(d time.Time) error {
		deadlines = append(deadlines, d)
		return nil
	}
	b := &Body{from: io.NopCloser(iotest.ErrReader(os.ErrDeadlineExceeded)), deadline: record}
	_, err := b.Read(make([]byte, 1))
	if wrong := b.Fault(err); wrong == nil || wrong.Status != http.StatusRequestTimeout {
		t.Errorf("got %v, and %v is wrong", err, wrong)
	}
	b = &Body{from: io.NopCloser(strings.NewReader("")), deadline: record}
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || b.Fault(err) != nil {
		t.Errorf("got %v, and %v is wrong", err, b.Fault(err))
	}
	if len(deadlines) != 1 || !deadlines[0].IsZero() {
		t.Errorf("after the body the deadlines set are %v, want one that takes it back", deadlines)
	}
}
