package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
)

// streamBuffer is how much of an event stream is read at once while little comes, in bytes.
const streamBuffer = 512

// errLongHead is why an answer's headers are not read any further.
var errLongHead = errors.New("the backend's response headers are longer than 64 KiB")

// single makes a request without a body on a connection of its own, which ends with the answer's body. A
// stream that is open for hours keeps no goroutine and no more than streamBuffer so, where http.Transport keeps two
// goroutines and 8 KiB for the next request on the connection.
func (t *transport) single(request *http.Request) (*http.Response, error) {
	address := request.URL.Host
	conn, err := t.dial(request.Context(), "tcp", address)
	if err != nil {
		return nil, err
	}
	end := context.AfterFunc(request.Context(), func() { _ = conn.Close() }) //nolint:errcheck // whoever reads sees it
	response, err := ask(conn, request)
	if err != nil {
		end()
		_ = conn.Close() //nolint:errcheck // the other error is the cause
		return nil, err
	}
	response.Body = &singleBody{ReadCloser: response.Body, conn: conn, end: end}
	return response, nil
}

// ask writes a request and reads the head of its final answer. Interim answers (RFC 9110, section 15.2) say nothing
// that matters for a request without a body.
func ask(conn net.Conn, request *http.Request) (*http.Response, error) {
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	bounded := &io.LimitedReader{R: conn, N: MaxHeader}
	reader := bufio.NewReaderSize(bounded, streamBuffer)
	for {
		response, err := http.ReadResponse(reader, request)
		switch {
		case err != nil && bounded.N <= 0:
			return nil, errLongHead
		case err != nil:
			return nil, err
		case response.StatusCode >= http.StatusOK || response.StatusCode == http.StatusSwitchingProtocols:
			bounded.N = 1<<63 - 1
			return response, nil
		}
	}
}

// singleBody is the body of an answer on a connection of its own.
type singleBody struct {
	io.ReadCloser
	conn net.Conn
	end  func() bool
}

// Close closes the connection. What has not been read yet is left unread: it may take hours to come.
func (b *singleBody) Close() error {
	b.end()
	return b.conn.Close()
}
