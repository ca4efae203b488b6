// Command attack measures what memory the runner takes under each known way to make it take some, and how long calls of
// a victim beside it take.
//
// main.go runs the attacks and tells the result; attacks.go has them, runner.go starts the runner and reads what it
// takes, backend.go is a server of the legacy era, and victim.go calls.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// The goals, for the default limit of a proxy's container.
const (
	limit    = 256 << 20
	mostRSS  = 200 << 20
	mostWait = time.Second
)

// result is what one attack has come to.
type result struct {
	Attack string `json:"attack"`
	// Before and Peak are bytes of the process that are resident, of which Files are mapped; Group is the most that the
	// kernel has counted for it, with what it keeps of connections; 0 where that cannot be had.
	Before int64 `json:"before"`
	Peak   int64 `json:"peak"`
	Files  int64 `json:"files"`
	Group  int64 `json:"group"`
	// Calls of the victim, and how many of them got no answer, or another than they should.
	Calls  int `json:"calls"`
	Failed int `json:"failed"`
	// P50 and P99 are how long they took.
	P50 time.Duration `json:"p50"`
	P99 time.Duration `json:"p99"`
	// Ended says that the runner did not live.
	Ended bool `json:"ended"`
	// Met says that the goals are.
	Met bool `json:"met"`
}

type report struct {
	Version string   `json:"version"`
	Machine string   `json:"machine"`
	Limit   int64    `json:"limit"`
	Results []result `json:"results"`
}

// roleVar names the attack that a process makes; without it, it is the victim, and the server behind the runner. Those
// who attack are other machines: here they get what of the processors the others leave.
const roleVar = "FREEHOLD_ATTACK"

func main() {
	if name := os.Getenv(roleVar); name != "" {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19) //nolint:errcheck // it may always have less
		for _, a := range append(attacks, everything) {
			if a.name == name {
				a.run(context.Background(), &process{calls: os.Args[1], probes: os.Args[2]})
			}
		}
		return
	}
	var binary, results, only, version string
	var seconds time.Duration
	flag.StringVar(&binary, "runner", "", "the runner's binary")
	flag.StringVar(&results, "json", "", "file to which the result is written as JSON too")
	flag.StringVar(&only, "only", "", "part of the name of attacks to run; all if empty")
	flag.StringVar(&version, "version", "", "what is measured, for the report")
	flag.DurationVar(&seconds, "for", 12*time.Second, "how long each attack lasts")
	flag.Parse()
	if err := run(context.Background(), binary, only, version, results, seconds); err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary, only, version, results string, lasts time.Duration) error {
	r := report{Version: version, Machine: machine(), Limit: limit}
	for _, a := range append(attacks, everything) {
		if !strings.Contains(a.name, only) {
			continue
		}
		one, err := measure(ctx, binary, a, lasts)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		r.Results = append(r.Results, one)
		fmt.Fprintf(os.Stderr, "%s: %d MiB\n", a.name, one.Peak>>20)
	}
	r.print()
	if results == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(results, append(data, '\n'), 0o600)
}

// measure runs an attack on a runner of its own.
func measure(ctx context.Context, binary string, a attack, lasts time.Duration) (result, error) {
	p, err := start(ctx, binary, a.policies)
	if err != nil {
		return result{}, err
	}
	defer p.stop()
	v := &victim{url: "http://" + p.calls + "/mcp"}
	for range 20 {
		v.call(ctx)
	}
	one := result{Attack: a.name, Before: p.resident("VmRSS:")}
	v.forget()
	attacked, over := context.WithTimeout(ctx, lasts)
	defer over()
	self, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	attacker := exec.CommandContext(attacked, self, p.calls, p.probes)
	attacker.Env = append(os.Environ(), roleVar+"="+a.name)
	if err := attacker.Start(); err != nil {
		return result{}, err
	}
	for attacked.Err() == nil {
		v.call(attacked)
		time.Sleep(50 * time.Millisecond)
	}
	one.Ended = p.ended()
	one.Peak, one.Files, one.Group = p.resident("VmHWM:"), p.resident("RssFile:"), p.group.peak()
	_ = attacker.Wait() //nolint:errcheck // it was killed
	one.Calls, one.Failed, one.P50, one.P99 = v.told()
	one.Met = !one.Ended && one.Peak < mostRSS && one.Failed == 0 && one.P99 <= mostWait
	return one, nil
}

func (r report) print() {
	fmt.Printf("%s\n%s\nlimit %d MiB; goals: peak below %d MiB, each call of the victim answered, p99 at most %s\n\n",
		r.Version, r.Machine, r.Limit>>20, mostRSS>>20, mostWait)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "attack\tbefore MiB\tpeak MiB\tof it files\tcgroup MiB\tcalls\tfailed\tp50 ms\tp99 ms\t")
	for _, one := range r.Results {
		told := "met"
		if one.Ended {
			told = "the runner has ended"
		} else if !one.Met {
			told = "NOT MET"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t%s\n", one.Attack, one.Before>>20, one.Peak>>20,
			one.Files>>20, one.Group>>20,
			one.Calls, one.Failed, one.P50.Seconds()*1000, one.P99.Seconds()*1000, told)
	}
	_ = w.Flush() //nolint:errcheck // of this process
}

func machine() string {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		load = []byte("unknown")
	}
	kernel, err := exec.CommandContext(context.Background(), "uname", "-sr").Output()
	if err != nil {
		kernel = []byte("unknown")
	}
	return fmt.Sprintf("%d cores, load %s; %s; %s", runtime.NumCPU(), strings.Fields(string(load))[0],
		strings.TrimSpace(string(kernel)), runtime.Version())
}
