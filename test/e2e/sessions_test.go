package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// session is one of a client of a revision that has them. It lives in the memory
// of a backend's pod.
type session struct{ url, id string }

// openSession begins a session.
func openSession(ctx context.Context, url string) session {
	GinkgoHelper()
	s, err := begin(ctx, url)
	Expect(err).NotTo(HaveOccurred())
	return s
}

func begin(ctx context.Context, url string) (s session, err error) {
	s.url = url
	s.id, _, err = s.post(ctx, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}`)
	if err == nil && s.id == "" {
		err = errors.New("initialize was answered without a session")
	}
	if err == nil {
		_, _, err = s.post(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return s, err
}

// call calls a tool. Where the session has gone the server answers 404, which is
// an error.
func (s session) call(ctx context.Context) (string, error) {
	_, answer,
		err := s.post(ctx,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test_simple_text","arguments":{}}}`)
	return answer, err
}

// post sends a message, and returns the session that the answer names, and its
// text.
func (s session) post(ctx context.Context, message string) (id, answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(message))
	if err != nil {
		return "", "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if s.id != "" {
		req.Header.Set("Mcp-Session-Id", s.id)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode >= http.StatusMultipleChoices || strings.Contains(string(data), `"error":{`)) {
		err = fmt.Errorf("HTTP %d with %q", res.StatusCode, data)
	}
	return res.Header.Get("Mcp-Session-Id"), string(data), err
}
