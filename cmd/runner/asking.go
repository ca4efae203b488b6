package main

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// maxAnswers is how many bytes of answers one asking reads, all in all: lists of
// thousands of tools with their schemas are some megabytes.
const maxAnswers = 16 << 20

var errTooMuch = errors.New("the backend's answers reach 16 MiB, which is more than is read of them")

// asking is a client for one asking of a backend. The image is the user's, and
// the client of MCP trusts whom it asks: it would follow a redirect to wherever
// the proxy's network reaches, and read an answer without an end into memory.
type asking struct {
	http.Client
	transport *http.Transport
	read      atomic.Int64
}

func newAsking() *asking {
	// No Proxy: the backend is a neighbour, whatever the environment says.
	a := &asking{transport: &http.Transport{MaxResponseHeaderBytes: 1 << 20}}
	a.Client = http.Client{
		Transport:     a,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return a
}

// end lets go of the connections.
func (a *asking) end() { a.transport.CloseIdleConnections() }

// explain is why an asking ended with err: the client of MCP does not always
// tell what reading an answer returned.
func (a *asking) explain(err error) error {
	if a.read.Load() >= maxAnswers {
		return errTooMuch
	}
	return err
}

// RoundTrip bounds the body of the answer.
func (a *asking) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := a.transport.RoundTrip(request)
	if err == nil {
		response.Body = &bounded{ReadCloser: response.Body, of: a}
	}
	return response, err
}

// bounded is a body of which no more is read than is left of all of them.
type bounded struct {
	io.ReadCloser
	of *asking
}

// Read returns errTooMuch once there is nothing left.
func (b *bounded) Read(p []byte) (int, error) {
	left := maxAnswers - b.of.read.Load()
	if left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), left)])
	b.of.read.Add(int64(n))
	return n, err
}
