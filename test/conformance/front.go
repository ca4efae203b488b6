package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing/iotest"
)

// Front stands before a server as a client's own gateway does, and passes everything on. It remembers which requests
// were not answered, or not to the end: that is never for lack of time, and so no reason to ask again. Make it with
// NewFront.
type Front struct {
	reverse httputil.ReverseProxy
	mu      sync.Mutex
	broken  []string
}

// NewFront returns a front before the server of which to has scheme and host. It adds the token to each request, unless
// that is empty.
func NewFront(to *url.URL, token string) *Front {
	f := &Front{}
	f.reverse = httputil.ReverseProxy{
		FlushInterval: -1,
		// Not the default one: that is everybody's, and httptest closes its connections.
		Transport: &http.Transport{},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host
			r.Out.Host = r.In.Host
			if token != "" {
				r.Out.Header.Set("Authorization", "Bearer "+token)
			}
		},
		ModifyResponse: func(response *http.Response) error {
			if unanswered[response.StatusCode] {
				f.note(response.Request, response.Status)
			}
			f.noteError(response)
			response.Body = &watched{
				ReadCloser: response.Body,
				failed:     func(err error) { f.note(response.Request, err.Error()) },
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			f.note(r, err.Error())
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	return f
}

// unanswered are the codes with which something between client and server answers for it (RFC 9110, section 15.6).
var unanswered = map[int]bool{
	http.StatusBadGateway: true, http.StatusServiceUnavailable: true,
	http.StatusGatewayTimeout: true,
}

// unansweredErrors are the codes of JSON-RPC errors that say the same with HTTP 200: a call in a session, or of the
// modern era, is answered by the proxy so (docs/errors.md).
var unansweredErrors = map[int]string{-32011: "no backend has answered", -32012: "the backend could not be reached"}

// mostError is how long an answer is at most that is looked into.
const mostError = 64 << 10

// noteError notes an answer that is such an error, and leaves it as it was.
func (f *Front) noteError(response *http.Response) {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode != http.StatusOK || kind != "application/json" || response.ContentLength <= 0 ||
		response.ContentLength > mostError {
		return
	}
	body, err := io.ReadAll(response.Body)
	read := io.Reader(bytes.NewReader(body))
	if err != nil {
		read = io.MultiReader(read, iotest.ErrReader(err))
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{read, response.Body}
	var answer struct {
		Error struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &answer) == nil {
		if what := unansweredErrors[answer.Error.Code]; what != "" {
			f.note(response.Request, what)
		}
	}
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Else the server closes the request's body when the answer begins. A transport looks behind the end of a body once
	// more, takes the error for a broken request where the answer was faster, as on a busy machine, and cuts the answer:
	// https://go.dev/issue/40747.
	_ = http.NewResponseController(w).EnableFullDuplex()
	f.reverse.ServeHTTP(w, r)
}

// note remembers what became of a request, unless its client has left.
func (f *Front) note(r *http.Request, what string) {
	if r.Context().Err() != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = append(f.broken, fmt.Sprintf("%s %s %s: %s", r.Method, r.Header.Get("Mcp-Method"), r.Header.Get("Mcp-Name"),
		what))
}

// Broken are the requests that were not answered, or not to the end, with the reason.
func (f *Front) Broken() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.broken)
}

// watched is an answer's body that tells when it breaks off.
type watched struct {
	io.ReadCloser
	failed func(error)
}

func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed(err)
	}
	return n, err
}
