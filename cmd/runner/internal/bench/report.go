package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// The goals: latency against a bare ReverseProxy, and bytes for one call.
const (
	goalRatio = 1.15
	goalBytes = 60_000
)

// report is the result as it is written to JSON.
type report struct {
	Machine     machine     `json:"machine"`
	Rounds      int         `json:"rounds"`
	TurnSeconds float64     `json:"turnSeconds"`
	Connections int         `json:"connections"`
	Streams     int         `json:"streams"`
	Contenders  []contested `json:"contenders"`
}

type machine struct {
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	Kernel  string `json:"kernel"`
	Go      string `json:"go"`
	Version string `json:"version"`
	Time    string `json:"time"`
	Load    string `json:"load"`
}

// contested is one contender's result. Bytes are of its process; those without
// a handle to their memory have none.
type contested struct {
	Name  string `json:"name"`
	Calls []row  `json:"calls"`
	// BytesPerStream are live heap and stacks, RSSPerStream what the process grew.
	BytesPerStream float64 `json:"bytesPerStream,omitempty"`
	RSSPerStream   float64 `json:"rssPerStream,omitempty"`
}

// row is what a contender did with one kind of call: medians over its turns.
type row struct {
	Kind           string  `json:"kind"`
	CallsPerSecond float64 `json:"callsPerSecond"`
	// Failed are calls without a whole answer, in all turns.
	Failed    int     `json:"failed"`
	P50Micros float64 `json:"p50Micros"`
	P99Micros float64 `json:"p99Micros"`
	// P50ToBare and P99ToBare are medians of the ratios within each round.
	P50ToBare float64 `json:"p50ToBare"`
	P99ToBare float64 `json:"p99ToBare"`
	// CPUMicros is how long one call keeps a core busy, over all turns: what a
	// busy machine changes least.
	CPUMicros   float64 `json:"cpuMicros"`
	Bytes       uint64  `json:"bytes,omitempty"`
	Allocations uint64  `json:"allocations,omitempty"`
}

func newReport(p plan, version string, contenders []*contender) report {
	r := report{
		Machine: thisMachine(version), Rounds: p.rounds, TurnSeconds: p.turn.Seconds(),
		Connections: p.connections, Streams: p.streams,
	}
	bare := contenders[slices.IndexFunc(contenders, func(c *contender) bool { return c.name == "bare" })]
	for _, c := range contenders {
		one := contested{Name: c.name, BytesPerStream: c.stream, RSSPerStream: c.streamRSS}
		for _, kind := range kinds {
			turns, other := c.turns[kind], bare.turns[kind]
			of := func(value func(i int) float64) float64 { return median(len(turns), value) }
			one.Calls = append(one.Calls, row{
				Kind:           kind,
				CallsPerSecond: of(func(i int) float64 { return float64(turns[i].calls) / turns[i].seconds }),
				P50Micros:      of(func(i int) float64 { return turns[i].p50 }),
				P99Micros:      of(func(i int) float64 { return turns[i].p99 }),
				P50ToBare:      of(func(i int) float64 { return turns[i].p50 / other[i].p50 }),
				P99ToBare:      of(func(i int) float64 { return turns[i].p99 / other[i].p99 }),
				CPUMicros:      work(turns),
				Failed:         failures(turns),
				Bytes:          c.perCall[kind].Allocated, Allocations: c.perCall[kind].Allocations,
			})
		}
		r.Contenders = append(r.Contenders, one)
	}
	return r
}

func work(turns []turn) float64 {
	calls, sum := 0, time.Duration(0)
	for _, t := range turns {
		calls, sum = calls+t.calls, sum+t.work
	}
	return micros(sum) / float64(calls)
}

func failures(turns []turn) int {
	sum := 0
	for _, t := range turns {
		sum += t.failed
	}
	return sum
}

func median(n int, value func(i int) float64) float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = value(i)
	}
	slices.Sort(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// text is the report for a person.
func (r report) text() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "%s, %d cores, load %s; Linux %s; %s; %s; %s\n", m.CPU, m.Cores, m.Load, m.Kernel, m.Go, m.Version, m.Time)
	fmt.Fprintf(&b, "%d connections, %d rounds of %.1f s each, medians\n\n", r.Connections, r.Rounds, r.TurnSeconds)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "answer\tcontender\tcalls/s\tfailed\tp50 µs\tp99 µs\tp50/bare\tp99/bare\tCPU µs/call\tB/call\tallocs/call\t")
	for i, kind := range kinds {
		for _, c := range r.Contenders {
			one := c.Calls[i]
			fmt.Fprintf(w, "%s\t%s\t%.0f\t%d\t%.0f\t%.0f\t%.2f\t%.2f\t%.0f\t%s\t%s\t\n", kind, c.Name, one.CallsPerSecond, one.Failed,
				one.P50Micros, one.P99Micros, one.P50ToBare, one.P99ToBare, one.CPUMicros, number(float64(one.Bytes)), number(float64(one.Allocations)))
		}
	}
	_ = w.Flush() //nolint:errcheck // the builder takes everything
	fmt.Fprintf(&b, "\nan open event stream, of %d:\n", r.Streams)
	for _, c := range r.Contenders[1:] {
		fmt.Fprintf(&b, "  %-7s heap and stacks %s B, process %s B\n", c.Name, number(c.BytesPerStream), number(c.RSSPerStream))
	}
	b.WriteString("\n" + r.goals())
	return b.String()
}

func number(n float64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", n)
}

// goals tells which were met.
func (r report) goals() string {
	var b strings.Builder
	tell := func(what string, met bool) {
		answer := "missed"
		if met {
			answer = "met"
		}
		fmt.Fprintf(&b, "goal %s: %s\n", what, answer)
	}
	for _, c := range r.Contenders {
		for _, one := range c.Calls {
			if c.Name != "ours" && c.Name != "runner" {
				continue
			}
			tell(fmt.Sprintf("%s, %s: %d calls failed, none may", c.Name, one.Kind, one.Failed), one.Failed == 0)
			tell(fmt.Sprintf("%s, %s: p50 %.2f of the bare proxy's, at most %.2f", c.Name, one.Kind, one.P50ToBare, goalRatio), one.P50ToBare <= goalRatio)
			if one.Bytes > 0 {
				tell(fmt.Sprintf("%s, %s: %d B a call, at most %d", c.Name, one.Kind, one.Bytes, goalBytes), one.Bytes <= goalBytes)
			}
		}
	}
	return b.String()
}

func thisMachine(version string) machine {
	m := machine{
		CPU: "unknown CPU", Cores: runtime.NumCPU(), Kernel: line("/proc/sys/kernel/osrelease"), Go: runtime.Version(),
		Version: version, Time: time.Now().UTC().Format(time.RFC3339),
		Load: strings.Join(strings.Fields(line("/proc/loadavg"))[:1], ""),
	}
	if info, ok := debug.ReadBuildInfo(); ok && m.Version == "" {
		m.Version = info.Main.Version
	}
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m
	}
	for text := range strings.Lines(string(data)) {
		if name, value, _ := strings.Cut(text, ":"); strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	return m
}

// line is a file's only line.
func line(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(data))
}
