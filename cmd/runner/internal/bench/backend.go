package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
)

// serveBackend answers a request for the tools with a list of them, and any other call with its own body: as JSON, or
// as an event or after a time if it is asked to in Mcp-Name. A GET opens a stream of one event that stays open. Whoever
// calls itself asSession begins a session.
func serveBackend() error {
	listener, err := listen()
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	return quick(http.HandlerFunc(answer)).Serve(listener)
}

func answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if bytes.Contains(body, []byte(`"initialize"`)) || bytes.Contains(body, []byte(`"server/discover"`)) {
		if r.Header.Get("Mcp-Name") == asSession {
			w.Header().Set(sessionHeader, rand.Text())
			w.WriteHeader(http.StatusOK)
			return
		}
		// The runner asks what this is; to ask for credentials is MCP enough.
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if id := r.Header[sessionHeader]; len(id) > 0 {
		w.Header()[sessionHeader] = id // as the SDKs do
	}
	time.Sleep(takes[r.Header.Get("Mcp-Name")])
	if bytes.Contains(body, []byte(`"tools/list"`)) {
		body = tools
	}
	if r.Method == http.MethodPost && r.Header.Get("Mcp-Name") != asEvent {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) //nolint:errcheck // the client counts what it misses
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, event(string(body)))
	_ = http.NewResponseController(w).Flush() //nolint:errcheck // see above
	if r.Method == http.MethodGet {
		<-r.Context().Done()
	}
}

// tools is a list of 20 tools, of which policies permit every other.
var tools = func() []byte {
	var list []string
	for n := range 20 {
		list = append(list, fmt.Sprintf(
			`{"name":"do-%d-%s","description":"does what its name says","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}`,
			n, []string{"even", "odd"}[n%2]))
	}
	return []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[` + strings.Join(list, ",") + `]}}`)
}()

func event(message string) string { return string(sse.Message([]byte(message))) }

func listen() (net.Listener, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it lasts as long as the process
	if err != nil {
		return nil, fmt.Errorf("listening in process %d: %w", os.Getpid(), err)
	}
	return listener, nil
}

// freeAddress is one at which nothing listens. Whoever is started there says if it is taken meanwhile.
func freeAddress() (string, error) {
	listener, err := listen()
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// quick is a server for one machine.
func quick(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
}
