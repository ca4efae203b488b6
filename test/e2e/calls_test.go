package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// call is a tool call as any HTTP client makes it. It says what came back:
// "answer" for a result, "error" for a JSON-RPC error, which the proxy gives
// where it cannot do better; anything else, a cut connection above all, is no
// way for a call to end, and is returned as an error.
func call(ctx context.Context, url string) (string, error) {
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_simple_text","arguments":{}}}`
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	// A connection of its own for each call, as many clients make it.
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return "", fmt.Errorf("reading the answer: %w", err)
	}
	message := struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}{}
	if err := json.Unmarshal([]byte(payload(string(data))), &message); err != nil {
		return "", fmt.Errorf("HTTP %d with %q is no JSON-RPC message: %w", res.StatusCode, data, err)
	}
	switch {
	case message.Result != nil:
		return "answer", nil
	case message.Error != nil:
		return "error", nil
	}
	return "", fmt.Errorf("HTTP %d with %q is neither answer nor error", res.StatusCode, data)
}

// payload is the message itself, or the data of the first event that has one.
func payload(body string) string {
	for _, line := range strings.Split(body, "\n") {
		if data, ok := strings.CutPrefix(line, "data:"); ok && strings.TrimSpace(data) != "" {
			return data
		}
	}
	return body
}

// caller calls again and again until it is told to stop.
type caller struct {
	stop    context.CancelFunc
	done    sync.WaitGroup
	mu      sync.Mutex
	answers int
	errors  int
	wrong   []string
}

// callAgain starts workers that call url, each call within ctx. It waits for a
// first answer: kube-proxy may learn of a Service's pods after everyone else.
func callAgain(ctx context.Context, url string, workers int) *caller {
	GinkgoHelper()
	Eventually(ctx, func() (string, error) { return call(ctx, url) }).Should(Equal("answer"))
	running, stop := context.WithCancel(ctx)
	c := &caller{stop: stop}
	for range workers {
		c.done.Go(func() {
			for running.Err() == nil {
				c.note(call(ctx, url))
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	return c
}

func (c *caller) note(end string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.wrong = append(c.wrong, time.Now().Format(time.TimeOnly)+" "+err.Error())
	case end == "answer":
		c.answers++
	default:
		c.errors++
	}
}

// end stops the workers and waits for their last calls.
func (c *caller) end() {
	c.stop()
	c.done.Wait()
}
