package proxy

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// Values of the label code that are no HTTP status.
const (
	codeAborted = "aborted"
	codeLeft    = "left"
	codeDenied  = "denied"
	codeOther   = "other"
)

// metrics counts requests. Every label has few values, whatever clients and backends send.
type metrics struct {
	requests *prometheus.CounterVec
	duration prometheus.Histogram
}

func newMetrics() metrics {
	return metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "freehold_proxy_requests_total",
			Help: "Requests by HTTP method, and by what the client got: the HTTP status, aborted (an answer that broke off), " +
				"left (the client left before the end of its answer), denied (by policies, or because of who calls) or other (a " +
				"status that HTTP does not define). A call that is answered with an error of the proxy's or of a bridge's, in " +
				"place of a status of 429 or 5xx, counts by that status.",
		}, []string{"method", "code"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "freehold_proxy_call_duration_seconds",
			Help: "Time from a POST to the end of its answer, without subscriptions.",
			// From a ping to a tool that asks a model.
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
	}
}

// Metrics are for Prometheus: what this proxy has counted, and what is on its way now.
func (p *Proxy) Metrics() []prometheus.Collector {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	return []prometheus.Collector{
		p.metrics.requests, p.metrics.duration,
		gauge("freehold_proxy_calls_in_flight", "Calls that wait for their answers.", func() float64 {
			calls, _ := p.traffic.count()
			return float64(calls)
		}),
		gauge("freehold_proxy_streams",
			"Event streams that are open and answer no call: those of GET requests, and subscriptions.", func() float64 {
				_, streams := p.traffic.count()
				return float64(streams)
			}),
		gauge("freehold_proxy_backend_reachable",
			"1 once the backend has answered, and 0 while the last call could not connect to it.", func() float64 {
				for _, t := range p.targets {
					if to := t.upstreams.Load().Active; to == nil || !to.reachable() {
						return 0
					}
				}
				return 1
			}),
	}
}

// outcome is the ResponseWriter of one request, whose answer is counted.
type outcome struct {
	http.ResponseWriter
	metrics *metrics
	request *http.Request
	began   time.Time
	status  int  // 0 while nothing is written
	denied  bool // by policies, or because of who calls
	failed  int  // the status in whose place a call was answered with another, 0 for none
	whole   bool // the handler has returned
}

// count is the stage that counts requests. Those behind it write to an outcome.
func (m *metrics) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o := &outcome{ResponseWriter: w, metrics: m, request: r, began: time.Now()}
		defer o.end()
		defer o.flushBroken()
		next.ServeHTTP(o, r)
		o.whole = true
	})
}

// WriteHeader implements http.ResponseWriter.
func (o *outcome) WriteHeader(status int) {
	if o.status == 0 && status >= http.StatusOK {
		o.status = status
	}
	o.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (o *outcome) Write(p []byte) (int, error) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	return o.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (o *outcome) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// flushBroken sends what there is of an answer that breaks off. The server would cut the connection without it.
func (o *outcome) flushBroken() {
	if !o.whole && o.status != 0 {
		_ = http.NewResponseController(o.ResponseWriter).Flush() //nolint:errcheck // the client may have left
	}
}

// end counts the request.
func (o *outcome) end() {
	method := o.request.Method
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodOptions:
	default:
		method = "other"
	}
	o.metrics.requests.WithLabelValues(method, o.code()).Inc()
	if method == http.MethodPost && o.request.Header.Get(protocol.HeaderMethod) != protocol.MethodListen {
		o.metrics.duration.Observe(time.Since(o.began).Seconds())
	}
}

func (o *outcome) code() string {
	switch {
	case (!o.whole || o.status == 0) && o.request.Context().Err() != nil:
		return codeLeft
	case !o.whole:
		return codeAborted
	case o.denied:
		return codeDenied
	case o.failed > 0:
		return strconv.Itoa(o.failed)
	case o.status == 0:
		return strconv.Itoa(http.StatusOK) // what net/http sends for nothing
	case http.StatusText(o.status) == "":
		return codeOther
	}
	return strconv.Itoa(o.status)
}
