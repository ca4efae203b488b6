package e2e

import (
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

// way is how a client calls.
type way struct {
	modern bool // as of revision 2026-07-28, else as a client without a session
	client *http.Client
}

// ways are those of many clients: of both eras, with a connection of its own for
// each call or with one that is kept.
func ways() []way {
	fresh, kept := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		&http.Client{Transport: &http.Transport{}}
	return []way{{false, fresh}, {true, fresh}, {false, kept}, {true, kept}}
}

// call is a tool call as any HTTP client makes it. It says what came back:
// "answer" for a result, the message of a JSON-RPC error, which the proxy gives
// where it cannot do better; anything else, a cut connection above all, is no
// way for a call to end, and is returned as an error.
func call(ctx context.Context, url string) (string, error) { return ways()[0].call(ctx, url, nil) }

// call sends its body slowly, unless slow is nil.
func (w way) call(ctx context.Context, url string, slow *slowly) (string, error) {
	message, err := w.ask(ctx, url, slow)
	switch {
	case err != nil:
		return "", err
	case message.Error != nil:
		return message.Error.Message, nil
	}
	return "answer", nil
}

// reply is what a call ended with: a result, or else an error.
type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// ask is call, and returns what the answer was.
func (w way) ask(ctx context.Context, url string, slow *slowly) (reply, error) {
	meta := ""
	if w.modern {
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	}
	var body io.Reader = strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_simple_text","arguments":{}` + meta + `}}`)
	if slow != nil {
		slow.Reader = body
		body = slow
	}
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if w.modern {
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", "tools/call")
		req.Header.Set("Mcp-Name", "test_simple_text")
	}
	res, err := w.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{}, fmt.Errorf("reading the answer: %w", err)
	}
	message := reply{}
	if err := json.Unmarshal([]byte(payload(string(data))), &message); err != nil {
		return reply{}, fmt.Errorf("HTTP %d with %q is no JSON-RPC message: %w", res.StatusCode, data, err)
	}
	if message.Result == nil && message.Error == nil {
		return reply{}, fmt.Errorf("HTTP %d with %q is neither answer nor error", res.StatusCode, data)
	}
	return message, nil
}

// slowly is a body whose first byte comes at once, and the rest after a pause. begun is closed once that byte has been
// sent.
type slowly struct {
	io.Reader
	pause time.Duration
	begun chan struct{}
	reads int
}

func (s *slowly) Read(p []byte) (int, error) {
	switch s.reads++; s.reads {
	case 1:
		return s.Reader.Read(p[:1])
	case 2: // net/http has written what it read before
		close(s.begun)
		time.Sleep(s.pause)
	}
	return s.Reader.Read(p)
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
	errors  []string
	wrong   []string
}

// callAgain starts workers that call url in all ways, each call within ctx. It waits for a
// first answer: kube-proxy may learn of a Service's pods after everyone else.
func callAgain(ctx context.Context, url string, workers int) *caller {
	GinkgoHelper()
	return callIn(ctx, url, workers, ways())
}

// callIn is callAgain in some ways only.
func callIn(ctx context.Context, url string, workers int, all []way) *caller {
	GinkgoHelper()
	Eventually(ctx, func() (string, error) { return all[0].call(ctx, url, nil) }).Should(Equal("answer"))
	running, stop := context.WithCancel(ctx)
	c := &caller{stop: stop}
	for i := range workers {
		c.done.Go(func() {
			for running.Err() == nil {
				c.note(all[i%len(all)].call(ctx, url, nil))
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	return c
}

func (c *caller) note(end string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().Format(time.TimeOnly) + " "
	switch {
	case err != nil:
		c.wrong = append(c.wrong, now+err.Error())
	case end == "answer":
		c.answers++
	default:
		c.errors = append(c.errors, now+end)
	}
}

// end stops the workers and waits for their last calls.
func (c *caller) end() {
	c.stop()
	c.done.Wait()
}
