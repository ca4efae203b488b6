package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/freehold-dev/freehold/test/golden"
)

// counts are the samples of a proxy by name and labels, and the rows of docs/metrics.md.
func counts(t *testing.T, p *Proxy) (samples map[string]float64, rows string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(p.Metrics()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	samples = map[string]float64{}
	for _, f := range families {
		var names []string
		for _, m := range f.GetMetric() {
			var labels []string
			names = nil
			for _, l := range m.GetLabel() {
				labels, names = append(labels, l.GetValue()), append(names, "`"+l.GetName()+"`")
			}
			key := strings.TrimSpace(strings.TrimPrefix(f.GetName(), "freehold_proxy_") + " " + strings.Join(labels, " "))
			samples[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
		rows += fmt.Sprintf("| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()),
			strings.Join(names, ", "), f.GetHelp())
	}
	return samples, rows
}

// obedient does what a call says, and tells of one that hangs.
func obedient(arrived chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch said := string(body); {
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case said == "hang":
			arrived <- struct{}{}
			<-r.Context().Done()
		case said == "break":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case said == "strange":
			w.WriteHeader(799)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}
}

func TestRequestsAreCounted(t *testing.T) {
	arrived, leave := make(chan struct{}), make(chan struct{})
	b := serve(t, Config{Authenticate: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Denied") == "" {
				next.ServeHTTP(w, r)
				return
			}
			Deny(w, r, next, Denied{})
		})
	}}, obedient(arrived))
	text(t, b.call(http.MethodPost, "/mcp", `{"id":1,"method":"ping"}`, "X-Denied", "yes"))
	text(t, b.call(http.MethodPost, "/mcp", "{}"))
	text(t, b.call(http.MethodPost, "/mcp", "{}", "Mcp-Method", "subscriptions/listen"))
	text(t, b.call(http.MethodPost, "/mcp", "strange"))
	text(t, b.call(http.MethodGet, "/elsewhere", ""))
	text(t, b.call("BREW", "/mcp", ""))
	text(t, b.call(http.MethodDelete, "/mcp", "", "Origin", "http://elsewhere.example"))
	if response, err := http.DefaultTransport.RoundTrip(b.request(http.MethodPost, "/mcp", "break")); err == nil {
		if body, err := io.ReadAll(response.Body); err == nil {
			t.Errorf("an answer that broke off is whole: %q", body)
		}
		_ = response.Body.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(leave)
		if response, err := http.DefaultTransport.RoundTrip(
			b.request(http.MethodPost, "/mcp", "hang").WithContext(ctx)); err == nil {
			_ = response.Body.Close()
		}
	}()
	<-arrived
	if got, _ := counts(t, b.proxy); got["calls_in_flight"] != 1 {
		t.Errorf("%v calls are on their way", got["calls_in_flight"])
	}
	cancel()
	<-leave
	stream := b.call(http.MethodGet, "/mcp", "", "Accept", "text/event-stream")
	want := map[string]float64{
		"requests_total 202 POST": 2, "requests_total other POST": 1, "requests_total 404 GET": 1,
		"requests_total 405 other":   1,
		"requests_total denied POST": 1, "requests_total 403 DELETE": 1, "requests_total aborted POST": 1,
		"requests_total left POST": 1, "requests_total 200 GET": 1,
		"call_duration_seconds": 5, "calls_in_flight": 0, "streams": 1, "backend_reachable": 1,
	}
	got, rows := counts(t, b.proxy)
	for end := time.Now().Add(patience); !cmp.Equal(got, want) &&
		time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		got, rows = counts(t, b.proxy)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_ = stream.Body.Close()
	golden.Part(t, "../../../../docs/metrics.md", "<!-- generated from cmd/runner/internal/proxy -->\n",
		"<!-- end of the proxy's -->\n",
		"| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n"+rows)
}
