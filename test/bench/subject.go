package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// settings are what a subject is started with.
type settings struct {
	// Subject is freehold, floor or one of the references.
	Subject string `json:"subject"`
	// Kubeconfig is a file.
	Kubeconfig string `json:"kubeconfig"`
	// Workers is how many servers are worked on at once; QPS and Burst are the
	// client's limits, none if QPS is negative. Zero means Freehold's default.
	Workers int     `json:"workers,omitempty"`
	QPS     float64 `json:"qps,omitempty"`
	Burst   int     `json:"burst,omitempty"`
	// Share is how many of a hundred servers take a changed configuration at a time.
	Share int `json:"share,omitempty"`
	// PriorityQueue lets what was listed at the start give way to what changes.
	PriorityQueue bool `json:"priorityQueue"`
	// Profiles is a directory for profiles of processor time and memory, none if empty.
	Profiles string `json:"profiles,omitempty"`
}

// subjectVariable holds the settings, as JSON, in a process that is a subject.
const subjectVariable = "FREEHOLD_BENCH_SUBJECT"

// runnerImage is what the proxies run in name.
const runnerImage = "freehold.dev/runner:bench"

// answer is what a subject says to each line that it is sent, and once at the start, when it is ready for servers.
type answer struct {
	Counts Counts `json:"counts"`
	// Heap is what lives after a garbage collection, in bytes, if asked for.
	Heap uint64 `json:"heap,omitempty"`
}

// The lines that a subject understands.
const (
	askCounts = "counts"
	askHeap   = "heap"
)

// runSubject is the main function of a subject. It ends when its input does.
func runSubject(text string, in io.Reader, out io.Writer) error {
	s := settings{}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("reading the settings of a subject: %w", err)
	}
	// What goes well is not logged: it would be counted as the subject's work.
	log.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading a kubeconfig: %w", err)
	}
	config.QPS, config.Burst = float32(s.QPS), s.Burst
	config.UserAgent = "bench-" + s.Subject
	counter := newRequestCounter()
	counter.wrap(config)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if s.Profiles != "" {
		finish, err := profile(s)
		if err != nil {
			return err
		}
		defer finish() // before cancel, which takes what the role remembers
	}
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() { ended <- roles[s.Subject](ctx, config, s, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		return err
	}
	go func() {
		ended <- converse(in, out, counter)
	}()
	return <-ended
}

// roles are what a subject may be. Each calls ready once it waits for servers.
var roles = map[string]role{
	"freehold":         runOperator,
	"floor":            runFloor,
	floorOfAChange:     runFloorOfAChange,
	"reference":        runReference,
	"reference-update": runReference,
	"reference-patch":  runReference,
	rollers[0]:         runSeveral(runOperator),
	rollers[1]:         runSeveral(runOldRollout(true)),
	rollers[2]:         runSeveral(runOldRollout(false)),
}

func converse(in io.Reader, out io.Writer, counter *requestCounter) error {
	reply := json.NewEncoder(out)
	if err := reply.Encode(answer{Counts: counter.read()}); err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		a := answer{Counts: counter.read()}
		if lines.Text() == askHeap {
			a.Heap = liveHeap()
		}
		if err := reply.Encode(a); err != nil {
			return err
		}
	}
	return nil
}

// liveHeap is what is reachable, in bytes. The second collection takes what finalizers and pools held on to.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// profile begins a profile of processor time, and writes one of memory too when it ends.
func profile(s settings) (finish func(), err error) {
	runtime.MemProfileRate = 8 << 10
	name := filepath.Join(s.Profiles, fmt.Sprintf("%s-%d", s.Subject, os.Getpid()))
	cpu, err := os.Create(name + ".cpu")
	if err != nil {
		return nil, fmt.Errorf("profiling: %w", err)
	}
	heap, err := os.Create(name + ".heap")
	if err != nil {
		return nil, fmt.Errorf("profiling: %w", err)
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, fmt.Errorf("profiling: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		liveHeap()
		_ = errors.Join(pprof.WriteHeapProfile(heap), heap.Close(), cpu.Close()) // the subject has done its work
	}, nil
}

// runSubjectIfAsked turns this process into a subject if its environment says so.
func runSubjectIfAsked() {
	text := os.Getenv(subjectVariable)
	if text == "" {
		return
	}
	if err := runSubject(text, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench: subject:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
