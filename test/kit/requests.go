package kit

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// Request is one request that a client sent.
type Request struct {
	// Verb is the API's verb, where "apply" is a patch of the apply type.
	Verb string
	// Resource is the plural, with /subresource where there is one.
	Resource, Namespace, Name string
	// Manager is the field manager the request named.
	Manager string
	// Agent is the client's User-Agent.
	Agent string
	// Code is the HTTP status of the answer, 0 where there was none.
	Code int
}

// String is the request on one line.
func (r Request) String() string {
	return fmt.Sprintf("%s %s %s/%s by %s: %d", r.Verb, r.Resource, r.Namespace, r.Name, cmp.Or(r.Manager, "-"), r.Code)
}

// Requests records what the clients built from wrapped configurations send. The zero Requests is ready to use.
type Requests struct {
	mu   sync.Mutex
	sent []Request
}

// Mark is a moment in the record.
type Mark int

// Wrap returns a copy of config whose clients are recorded.
func (r *Requests) Wrap(config *rest.Config) *rest.Config {
	wrapped := rest.CopyConfig(config)
	Through(wrapped, r.carry)
	return wrapped
}

// Mark returns the present moment.
func (r *Requests) Mark() Mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Mark(len(r.sent))
}

// Since returns what was answered since mark.
func (r *Requests) Since(mark Mark) Log {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Log(slices.Clone(r.sent[mark:]))
}

// Log is a part of the record.
type Log []Request

// Where returns the requests that keep answers true for.
func (l Log) Where(keep func(Request) bool) Log {
	var kept Log
	for _, r := range l {
		if keep(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// In returns the requests to a namespace.
func (l Log) In(namespace string) Log {
	return l.Where(func(r Request) bool { return r.Namespace == namespace })
}

// Writes returns the requests that could change something, without Events and
// Leases: the first are bounded elsewhere, the second do not depend on servers.
func (l Log) Writes() Log {
	return l.Where(func(r Request) bool {
		read := slices.Contains([]string{"get", "list", "watch"}, r.Verb)
		return !read && r.Resource != "events" && r.Resource != "leases" && !strings.HasSuffix(r.Resource, "reviews")
	})
}

// Of returns the requests to resources, each written as plural or plural/subresource.
func (l Log) Of(resources ...string) Log {
	return l.Where(func(r Request) bool { return slices.Contains(resources, r.Resource) })
}

// Answered returns the requests that got an HTTP status.
func (l Log) Answered(code int) Log {
	return l.Where(func(r Request) bool { return r.Code == code })
}

// Accepted returns the requests that did what they asked for. How many are refused, and sent again,
// hangs on who else writes, and when.
func (l Log) Accepted() Log {
	return l.Where(func(r Request) bool { return r.Code >= 200 && r.Code < 300 })
}

// String is a table of the requests, counted, the most frequent first.
func (l Log) String() string {
	if len(l) == 0 {
		return "no requests\n"
	}
	counts := map[Request]int{}
	for _, r := range l {
		counts[r]++
	}
	rows := make([]Request, 0, len(counts))
	for r := range counts {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b Request) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a.String(), b.String()))
	})
	var text strings.Builder
	fmt.Fprintf(&text, "%d requests:\n", len(l))
	for _, r := range rows {
		fmt.Fprintf(&text, "%5d × %s\n", counts[r], r)
	}
	return text.String()
}

var requestInfo = request.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

func (r *Requests) carry(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	sent := RequestOf(req)
	response, err := next.RoundTrip(req)
	if response != nil {
		sent.Code = response.StatusCode
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, sent)
	return response, err
}

// RequestOf says what an HTTP request asks of the API server. It has no answer yet.
func RequestOf(req *http.Request) Request {
	sent := Request{Verb: strings.ToLower(req.Method), Resource: req.URL.Path, Agent: req.UserAgent()}
	info, err := requestInfo.NewRequestInfo(req)
	if err != nil || !info.IsResourceRequest {
		return sent // discovery, health: named by path
	}
	sent.Verb, sent.Resource, sent.Namespace, sent.Name = info.Verb, info.Resource, info.Namespace, info.Name
	if info.Subresource != "" {
		sent.Resource += "/" + info.Subresource
	}
	sent.Manager = req.URL.Query().Get("fieldManager")
	switch types.PatchType(req.Header.Get("Content-Type")) {
	case types.ApplyYAMLPatchType, types.ApplyCBORPatchType:
		sent.Verb = "apply"
	}
	return sent
}
