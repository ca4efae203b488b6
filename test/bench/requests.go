package main

import (
	"cmp"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/freehold-dev/freehold/test/kit"
)

// Count is what was sent of one kind of request.
type Count struct {
	// Verb and Resource are those of kit.Request.
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
	Requests int    `json:"requests"`
	// Conflicts were answered 409, Refused anything else above 399.
	Conflicts int `json:"conflicts,omitempty"`
	Refused   int `json:"refused,omitempty"`
	// Sent and Received are the bytes of bodies, without headers and TLS. What is received is counted after decompression.
	Sent     int64 `json:"sentBytes,omitempty"`
	Received int64 `json:"receivedBytes"`
}

// Counts are all requests of a while, sorted by verb and resource.
type Counts []Count

// requestCounter counts what the clients of a process send.
type requestCounter struct {
	mu     sync.Mutex
	counts map[[2]string]*Count
}

func newRequestCounter() *requestCounter { return &requestCounter{counts: map[[2]string]*Count{}} }

// wrap makes the clients of a configuration count.
func (m *requestCounter) wrap(config *rest.Config) {
	kit.Through(config, m.carry)
}

// read returns what was counted so far.
func (m *requestCounter) read() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(Counts, 0, len(m.counts))
	for _, c := range m.counts {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(strings.Compare(a.Verb, b.Verb), strings.Compare(a.Resource, b.Resource))
	})
	return all
}

func (m *requestCounter) add(r kit.Request, change func(*Count)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]string{r.Verb, r.Resource}
	if m.counts[key] == nil {
		m.counts[key] = &Count{Verb: r.Verb, Resource: r.Resource}
	}
	change(m.counts[key])
}

func (m *requestCounter) carry(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	request := kit.RequestOf(req)
	response, err := next.RoundTrip(req)
	code := 0
	if response != nil {
		code = response.StatusCode
		response.Body = &counted{ReadCloser: response.Body, counter: m, request: request}
	}
	m.add(request, func(c *Count) {
		c.Requests++
		c.Sent += max(0, req.ContentLength)
		switch {
		case code == http.StatusConflict:
			c.Conflicts++
		case code >= http.StatusBadRequest:
			c.Refused++
		}
	})
	return response, err
}

// counted is a body whose bytes are counted as they arrive, so that a watch counts while it lasts.
type counted struct {
	io.ReadCloser
	counter *requestCounter
	request kit.Request
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.counter.add(c.request, func(count *Count) { count.Received += int64(n) })
	return n, err
}

// since returns what was counted after before was read.
func (c Counts) since(before Counts) Counts {
	var diff Counts
	for _, now := range c {
		i := slices.IndexFunc(before, func(was Count) bool { return was.Verb == now.Verb && was.Resource == now.Resource })
		if i >= 0 {
			was := before[i]
			now.Requests -= was.Requests
			now.Conflicts -= was.Conflicts
			now.Refused -= was.Refused
			now.Sent -= was.Sent
			now.Received -= was.Received
		}
		if now.Requests != 0 || now.Received != 0 {
			diff = append(diff, now)
		}
	}
	return diff
}

// where returns the counts that keep is true for.
func (c Counts) where(keep func(Count) bool) Counts {
	return slices.DeleteFunc(slices.Clone(c), func(count Count) bool { return !keep(count) })
}

// writes are those that could change something, without Events and Leases.
func (c Counts) writes() Counts {
	return c.where(func(c Count) bool {
		read := slices.Contains([]string{"get", "list", "watch"}, c.Verb)
		return !read && c.Resource != "events" && c.Resource != "leases"
	})
}

// sum adds everything up.
func (c Counts) sum() Count {
	var total Count
	for _, count := range c {
		total.Requests += count.Requests
		total.Conflicts += count.Conflicts
		total.Refused += count.Refused
		total.Sent += count.Sent
		total.Received += count.Received
	}
	return total
}
