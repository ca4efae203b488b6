package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// serveBackend is a server of the legacy era, so that calls of the modern one are translated. The name of the tool says
// what it does.
func serveBackend(ctx context.Context) (address string, end func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(answer), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()                          //nolint:errcheck // it lasts as long as the runner
	return l.Addr().String(), func() { _ = server.Close() }, nil //nolint:errcheck // as above
}

func answer(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() //nolint:errcheck // a client that left is seen below
		<-r.Context().Done()
		return
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	body := string(data)
	result := `{"content":[{"type":"text","text":"ok"}]}`
	switch {
	case strings.Contains(body, `"initialize"`):
		w.Header().Set("Mcp-Session-Id", fmt.Sprint(time.Now().UnixNano()))
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true}},"serverInfo":{"name":"attacked","version":"1"}}`
	case strings.Contains(body, `"notifications/`):
		w.WriteHeader(http.StatusAccepted)
		return
	case strings.Contains(body, `"server/discover"`):
		w.WriteHeader(http.StatusBadRequest)
		return
	case strings.Contains(body, `"tools/list"`):
		result = `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`
	case strings.Contains(body, `"hang"`):
		<-r.Context().Done()
		return
	case strings.Contains(body, `"picture"`):
		result = strings.Replace(result, "ok", strings.Repeat("x", 5<<20), 1)
	case strings.Contains(body, `"film"`):
		result = strings.Replace(result, "ok", strings.Repeat("x", 15<<20), 1)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, idOf(body), result) // to a client that may have left
}

// idOf is the id of a request as the translator writes it, in the order of names.
func idOf(body string) string {
	_, rest, found := strings.Cut(body, `"id":`)
	if !found {
		return "null"
	}
	return rest[:strings.IndexAny(rest, ",}")]
}
