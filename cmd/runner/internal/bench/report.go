package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// The goals.
const (
	// Of p50: of ours to a bare ReverseProxy, and of all guards to ours.
	goalOurs   = 1.1
	goalGuards = 1.3
	// Of calls a second: of ours to a bare ReverseProxy, and of the runner's bridge to each of others, both alone and both
	// behind ours.
	goalCalls   = 1.3
	goalBridges = 3
	// Of memory, in bytes: an idle stream, and a process with 1,000.
	goalStream = 20 << 10
	// What code of its own must save, in per cent: of the CPU of a call, and of the memory of a silent stream.
	goalClient  = 15
	goalTaken   = 30
	goalProcess = 25_000_000
)

// row is what a contender did with one kind of call: medians over its turns.
type row struct {
	Kind           string  `json:"kind"`
	Name           string  `json:"contender"`
	CallsPerSecond float64 `json:"callsPerSecond"`
	// Failed are calls without a whole answer, in all turns.
	Failed int     `json:"failed"`
	P50    float64 `json:"p50Micros"`
	P99    float64 `json:"p99Micros"`
	// ToBare and ToOurs are medians of the ratios of p50 within each round, Calls and Bridge of the ratios of the calls a
	// second of ours, and of the runner's bridge alone, to its own; 0 where there is nothing to compare with.
	ToBare float64 `json:"p50ToBare,omitempty"`
	ToOurs float64 `json:"p50ToOurs,omitempty"`
	Calls  float64 `json:"oursCallsToIts,omitempty"`
	Bridge float64 `json:"bridgesCallsToIts,omitempty"`
	// CPU is how many microseconds one call keeps a core busy, over all turns: what a
	// busy machine changes least.
	CPU float64 `json:"cpuMicrosPerCall"`
	// Saves is by how much CPU is less than with http.Transport, a median of the rounds; 0 where that is not compared.
	Saves float64 `json:"savesOfStandard,omitempty"`
}

// streams is what open event streams take of a process, in bytes.
type streams struct {
	Name string `json:"contender"`
	// Each is what one takes when it has been silent for a while, Opened right after it was opened.
	Each   float64 `json:"each"`
	Opened float64 `json:"eachWhenOpened"`
	// Idle is the process without streams, All with them, at rest.
	Idle memory `json:"idle"`
	All  memory `json:"all"`
	// Saves is by how much Each is less than with handlers of net/http; 0 where that is not compared.
	Saves float64 `json:"savesOfStandard,omitempty"`
}

// results is all that was measured.
type results struct {
	Machine     string    `json:"machine"`
	Version     string    `json:"version"`
	Time        time.Time `json:"time"`
	Rounds      int       `json:"rounds"`
	TurnSeconds float64   `json:"turnSeconds"`
	Connections int       `json:"connections"`
	StreamCount int       `json:"streamCount"`
	Rows        []row     `json:"calls"`
	Streams     []streams `json:"streams"`
}

func result(p plan, version string, contenders []*contender) results {
	r := results{
		Machine: fmt.Sprintf("%s, %d cores, load %s; Linux %s; %s", cpu(), runtime.NumCPU(),
			strings.Join(strings.Fields(line("/proc/loadavg"))[:1], ""),
			line("/proc/sys/kernel/osrelease"), runtime.Version()),
		Version: version, Time: time.Now().UTC().Truncate(time.Second),
		Rounds: p.rounds, TurnSeconds: p.turn.Seconds(), Connections: p.connections, StreamCount: p.streams,
		Rows: rowsOf(p.kinds, contenders),
	}
	if p.streams > 0 {
		r.Streams = streamsOf(p.streams, players(asStream, contenders))
	}
	return r
}

// streamsOf is what count streams take of each.
func streamsOf(count int, contenders []*contender) (all []streams) {
	for _, c := range contenders {
		each := func(m memory) float64 { return (m.Own - c.idle.Own) / float64(count) }
		all = append(all, streams{Name: c.name, Each: each(c.rested), Opened: each(c.open), Idle: c.idle, All: c.rested})
	}
	named := func(name string) int {
		return slices.IndexFunc(all, func(s streams) bool { return s.Name == name })
	}
	if own, other := named(aloneName), named(handlersName); own >= 0 && other >= 0 {
		all[own].Saves = 1 - all[own].Each/all[other].Each
	}
	return all
}

// rowsOf are by kind, and by contender as they come.
func rowsOf(kinds []string, contenders []*contender) (rows []row) {
	for _, kind := range kinds {
		all := players(kind, contenders)
		for _, c := range all {
			turns := c.turns[kind]
			of := func(value func(i int) float64) float64 { return median(len(turns), value) }
			to := func(name string, value func(other, own turn) float64) float64 {
				at := slices.IndexFunc(all, func(c *contender) bool { return c.name == name })
				if at < 0 {
					return 0
				}
				return of(func(i int) float64 { return value(all[at].turns[kind][i], turns[i]) })
			}
			latency := func(other, own turn) float64 { return own.p50 / other.p50 }
			calls := func(other, own turn) float64 { return other.rate() / own.rate() }
			one := row{
				Kind: kind, Name: c.name,
				CallsPerSecond: of(func(i int) float64 { return turns[i].rate() }),
				P50:            of(func(i int) float64 { return turns[i].p50 }),
				P99:            of(func(i int) float64 { return turns[i].p99 }),
				ToBare:         to(bareName, latency), ToOurs: to(ours, latency),
				Calls: to(ours, calls), Bridge: to(bridgeName, calls),
				CPU: work(turns), Failed: failures(turns),
			}
			if c.name == aloneName {
				one.Saves = to(clientName, func(other, own turn) float64 {
					return 1 - work([]turn{own})/work([]turn{other})
				})
			}
			rows = append(rows, one)
		}
	}
	return rows
}

func (t turn) rate() float64 { return float64(t.calls) / t.seconds }

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

// write writes the result for a program.
func (r results) write(file string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// text is the result for a person.
func (r results) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; %s; %s\n", r.Machine, r.Version, r.Time.Format(time.RFC3339))
	fmt.Fprintf(&b, "%d connections, %d rounds of %g s each, medians\n\n", r.Connections, r.Rounds, r.TurnSeconds)
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', tabwriter.AlignRight|tabwriter.Debug)
	fmt.Fprintln(w, "call\tcontender\tcalls/s\tfailed\tp50 µs\tp99 µs\tp50 to bare\tp50 to ours\tours' calls to "+
		"its\tbridge's\tCPU µs/call\t")
	for _, r := range r.Rows {
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%d\t%.0f\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t\n", r.Kind, r.Name, r.CallsPerSecond,
			r.Failed, r.P50, r.P99, r.ToBare, r.ToOurs, r.Calls, r.Bridge, r.CPU)
	}
	_ = w.Flush() //nolint:errcheck // the builder takes everything
	fmt.Fprintf(&b, "\n%d open event streams that are silent, in memory of the process:\n", r.StreamCount)
	w = tabwriter.NewWriter(&b, 0, 0, 1, ' ', tabwriter.AlignRight|tabwriter.Debug)
	fmt.Fprintln(w, "contender\tKB each\tKB each when opened\tMB of its own\tand of files\twithout streams\t")
	for _, s := range r.Streams {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", s.Name, s.Each/1000, s.Opened/1000, s.All.Own/1e6,
			s.All.Files/1e6, s.Idle.Own/1e6)
	}
	_ = w.Flush() //nolint:errcheck // as above
	b.WriteString("\n")
	for _, r := range r.Rows {
		b.WriteString(r.goals())
	}
	for _, s := range r.Streams {
		b.WriteString(s.goals())
	}
	return b.String()
}

func tell(name, kind, what string, met bool) string {
	return fmt.Sprintf("goal %s, %s: %s: %s\n", name, kind, what, map[bool]string{true: "met", false: "missed"}[met])
}

// goals tells which were met.
func (r row) goals() string {
	tell := func(what string, met bool) string { return tell(r.Name, r.Kind, what, met) }
	switch r.Name {
	case directName, "nginx", bridgeName, clientName:
		return ""
	case aloneName:
		return tell(fmt.Sprintf("%.0f %% less CPU a call than with http.Transport, at least %d", r.Saves*100, goalClient),
			r.Saves*100 >= goalClient)
	case bareName:
		if r.Calls == 0 || r.Kind == asList {
			return ""
		}
		return tell(fmt.Sprintf("ours serves %.2f times its calls, at least %.1f", r.Calls, goalCalls), r.Calls >= goalCalls)
	case "supergateway", "mcp-proxy":
		return tell(fmt.Sprintf("the runner's bridge alone serves %.1f times its calls, at least %d", r.Bridge, goalBridges),
			r.Bridge >= goalBridges)
	case proxied("supergateway"), proxied("mcp-proxy"):
		return tell(fmt.Sprintf("with the runner's bridge ours serves %.1f times its calls, at least %d", r.Calls,
			goalBridges), r.Calls >= goalBridges)
	}
	text := tell(fmt.Sprintf("%d calls failed, none may", r.Failed), r.Failed == 0)
	switch {
	case r.Name == ours && r.Kind != asStdio:
		text += tell(fmt.Sprintf("p50 %.2f of the bare proxy's, at most %.2f", r.ToBare, goalOurs), r.ToBare <= goalOurs)
	case r.Name != ours && r.Kind != asList:
		text += tell(fmt.Sprintf("p50 %.2f of ours without guards, at most %.2f", r.ToOurs, goalGuards),
			r.ToOurs <= goalGuards)
	}
	return text
}

// goals tells which were met.
func (s streams) goals() string {
	switch s.Name {
	case ours:
	case aloneName:
		return tell(s.Name, "streams", fmt.Sprintf("%.0f %% less memory than with handlers, at least %d", s.Saves*100,
			goalTaken), s.Saves*100 >= goalTaken)
	default:
		return ""
	}
	return tell(s.Name, "streams", fmt.Sprintf("%.1f KB each, at most 20 KiB", s.Each/1000), s.Each <= goalStream) +
		tell(s.Name, "streams", fmt.Sprintf("%.1f MB of its own, at most 25", s.All.Own/1e6), s.All.Own <= goalProcess)
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
