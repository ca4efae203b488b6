package kit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// ErrReset is what a process sees of a connection that breaks.
var ErrReset = errors.New("read: connection reset by peer")

// Carry is what a transport does with a request. next sends it to the API server.
type Carry func(req *http.Request, next http.RoundTripper) (*http.Response, error)

// RoundTripper is a function that sends requests.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends.
func (f RoundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Through puts carry between the clients that are made of config from now on and the API server.
func Through(config *rest.Config, carry Carry) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(req *http.Request) (*http.Response, error) { return carry(req, next) })
	})
}

// IsWatch reports whether a request asks for a watch.
func IsWatch(req *http.Request) bool {
	return strings.Contains(req.URL.RawQuery, "watch=true") || strings.Contains(req.URL.RawQuery, "watch=1")
}

// Fault is what goes wrong between a process and the API server.
type Fault struct {
	Name string
	// after says that the API server has done what was asked.
	after bool
	// answer is what arrives in place of the API server's answer, of which half arrives where it is nil.
	answer RoundTripper
}

// Faults are the kinds of faults of requests.
var Faults = []Fault{
	{"the connection breaks before the request arrives", false, reset},
	{"the connection breaks before the answer arrives", true, reset},
	{"half an answer arrives", true, nil},
	{
		"429 with Retry-After", false,
		statusAnswer(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests", "Retry-After", "1"),
	},
	Refusal(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests"),
	Refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcdserver: leader changed"),
	{"500 after the write", true, statusAnswer(http.StatusInternalServerError, "", "etcdserver: request timed out")},
	Refusal(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "apiserver is shutting down"),
	{
		"504 after the write", true,
		statusAnswer(http.StatusGatewayTimeout, metav1.StatusReasonTimeout,
			"request did not complete within the allotted timeout"),
	},
}

// Refusal is a fault of its code's name: a Status arrives, and the API server has seen nothing.
func Refusal(code int, reason metav1.StatusReason, message string) Fault {
	return Fault{Name: strconv.Itoa(code), answer: statusAnswer(code, reason, message)}
}

// Carry lets the fault happen to a request. The answer to a watch has begun when the API server refuses
// it, so that its connection breaks.
func (f Fault) Carry(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	if !f.after {
		return f.answer(req)
	}
	answer, err := next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if f.answer == nil {
		return halved(answer), nil
	}
	_ = answer.Body.Close() // nobody reads it
	if IsWatch(req) {
		return reset(req)
	}
	return f.answer(req)
}

func reset(*http.Request) (*http.Response, error) { return nil, ErrReset }

// statusAnswer answers a request with a Status and with headers, each name before its value.
func statusAnswer(code int, reason metav1.StatusReason, message string, headers ...string) RoundTripper {
	return func(req *http.Request) (*http.Response, error) {
		body, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message, //nolint:gosec // an HTTP status
		})
		answer := &http.Response{
			StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
			Header:        http.Header{"Content-Type": {"application/json"}},
			Body:          io.NopCloser(bytes.NewReader(body)),
			ContentLength: int64(len(body)),
		}
		for i := 0; i+1 < len(headers); i += 2 {
			answer.Header.Set(headers[i], headers[i+1])
		}
		return answer, err
	}
}

// halved is an answer whose connection breaks in the middle.
func halved(answer *http.Response) *http.Response {
	body := answer.Body
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(body, 100), broken{}), body}
	return answer
}

type broken struct{}

// Read finds the connection broken.
func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
