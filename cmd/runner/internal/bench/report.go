package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// The goals: of ours against a bare ReverseProxy, and of all guards against ours.
const (
	goalOurs   = 1.15
	goalGuards = 1.3
)

// row is what a contender did with one kind of call: medians over its turns.
type row struct {
	kind, name     string
	callsPerSecond float64
	// failed are calls without a whole answer, in all turns.
	failed   int
	p50, p99 float64
	// toBare and toOurs are medians of the ratios of p50 within each round.
	toBare, toOurs float64
	// cpu is how many microseconds one call keeps a core busy, over all turns: what a
	// busy machine changes least.
	cpu float64
}

// rowsOf are by kind, and by contender as they come.
func rowsOf(contenders []*contender) (rows []row) {
	for _, kind := range kinds {
		for _, c := range contenders {
			turns := c.turns[kind]
			of := func(value func(i int) float64) float64 { return median(len(turns), value) }
			to := func(name string) float64 {
				at := slices.IndexFunc(contenders, func(c *contender) bool { return c.name == name })
				if at < 0 {
					return 0
				}
				return of(func(i int) float64 { return turns[i].p50 / contenders[at].turns[kind][i].p50 })
			}
			rows = append(rows, row{
				kind: kind, name: c.name,
				callsPerSecond: of(func(i int) float64 { return float64(turns[i].calls) / turns[i].seconds }),
				p50:            of(func(i int) float64 { return turns[i].p50 }),
				p99:            of(func(i int) float64 { return turns[i].p99 }),
				toBare:         to("bare"), toOurs: to("ours"), cpu: work(turns), failed: failures(turns),
			})
		}
	}
	return rows
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

// report is the result for a person.
func report(p plan, version string, contenders []*contender) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d cores, load %s; Linux %s; %s; %s; %s\n", cpu(), runtime.NumCPU(), strings.Join(strings.Fields(line("/proc/loadavg"))[:1], ""),
		line("/proc/sys/kernel/osrelease"), runtime.Version(), version, time.Now().UTC().Format(time.RFC3339))
	fmt.Fprintf(&b, "%d connections, %d rounds of %s each, medians\n\n", p.connections, p.rounds, p.turn)
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', tabwriter.AlignRight|tabwriter.Debug)
	fmt.Fprintln(w, "answer\tcontender\tcalls/s\tfailed\tp50 µs\tp99 µs\tp50 to bare\tp50 to ours\tCPU µs/call\t")
	rows := rowsOf(contenders)
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%d\t%.0f\t%.0f\t%.2f\t%.2f\t%.0f\t\n", r.kind, r.name, r.callsPerSecond, r.failed, r.p50, r.p99, r.toBare, r.toOurs, r.cpu)
	}
	_ = w.Flush() //nolint:errcheck // the builder takes everything
	fmt.Fprintf(&b, "\nan open event stream, of %d, in memory of the process; and the process with all of them:\n", p.streams)
	for _, c := range contenders[1:] {
		fmt.Fprintf(&b, "  %-9s %.0f B  %.1f MB\n", c.name, c.stream, c.full/1e6)
	}
	b.WriteString("\n")
	for _, r := range rows {
		b.WriteString(r.goals())
	}
	return b.String()
}

// goals tells which were met.
func (r row) goals() string {
	tell := func(what string, met bool) string {
		return fmt.Sprintf("goal %s, %s: %s: %s\n", r.name, r.kind, what, map[bool]string{true: "met", false: "missed"}[met])
	}
	if r.name == "direct" || r.name == "bare" || r.name == "nginx" {
		return ""
	}
	text := tell(fmt.Sprintf("%d calls failed, none may", r.failed), r.failed == 0)
	switch {
	case r.name == "ours":
		text += tell(fmt.Sprintf("p50 %.2f of the bare proxy's, at most %.2f", r.toBare, goalOurs), r.toBare <= goalOurs)
	case r.kind != asList:
		text += tell(fmt.Sprintf("p50 %.2f of ours without guards, at most %.2f", r.toOurs, goalGuards), r.toOurs <= goalGuards)
	}
	return text
}

func cpu() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	for text := range strings.Lines(string(data)) {
		if name, value, _ := strings.Cut(text, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}

// line is a file's only line.
func line(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(data))
}
