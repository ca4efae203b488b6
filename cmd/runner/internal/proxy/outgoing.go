package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
)

// longestDirect is the longest body that is read as a whole before it is sent, in bytes. Longer ones, those of no
// stated length and those that wait for 100 (Continue) are http.Transport's: they are sent while they come.
const longestDirect = pipeline.Short

// readBody is the body of a call that has been read.
type readBody struct {
	bytes.Reader
}

// Close implements io.Closer. It stays readable, for the next attempt where nothing was sent.
func (*readBody) Close() error { return nil }

// errLongBody is why a call is not sent.
var errLongBody = errors.New("the request body is longer than its Content-Length")

// short reports whether gather reads the body of a request.
func short(request *http.Request) bool {
	n := request.ContentLength
	return request.Method == http.MethodPost && n > 0 && n <= longestDirect && request.Header["Expect"] == nil &&
		request.Body != nil && !request.Close
}

// gather reads the body of a call that can be made in its goroutine, and puts it in place of the request's. It returns
// the errors of the body, and errLongBody. Of a call whose body a handler has read, that is the body.
func gather(request *http.Request, read *pipeline.Body) error {
	if _, read := request.Body.(*readBody); read || !short(request) {
		return nil
	}
	n := request.ContentLength
	defer request.Body.Close() //nolint:errcheck // it was read
	data, whole := read.Take()
	if !whole {
		data = make([]byte, n)
		if _, err := io.ReadFull(request.Body, data); err != nil {
			return err
		}
		var more [1]byte
		switch n, err := request.Body.Read(more[:]); {
		case n > 0:
			return errLongBody
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
	}
	body := new(readBody)
	body.Reset(data)
	request.Body = body
	return nil
}

// heldBody stays open for the next attempt where the one before got no connection:
// a transport closes the body of each request.
type heldBody struct {
	io.ReadCloser
	mu       sync.Mutex
	released bool
	closed   bool
}

// Close closes the body once it is released.
func (b *heldBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed = true; b.released {
		return b.ReadCloser.Close()
	}
	return nil
}

// again begins an attempt: what the one before has closed is open.
func (b *heldBody) again() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = false
}

// release has the body closed with the last attempt. That one's transport may still look for the body's end, and takes
// a body that is closed meanwhile for a failed request.
func (b *heldBody) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released = true; b.closed {
		_ = b.ReadCloser.Close() //nolint:errcheck // the server closes it once more
	}
}
