package main

import (
	"context"
	"fmt"
	"time"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// Step is one thing that was measured.
type Step struct {
	Scenario string `json:"scenario"`
	// Step is what was done, where a scenario has several.
	Step    string `json:"step,omitempty"`
	Subject string `json:"subject"`
	Servers int    `json:"servers"`
	// Seconds is from the first change until the last server was as it should be.
	Seconds float64 `json:"seconds"`
	// Counts are what the subject sent until it was at rest.
	Counts Counts `json:"counts,omitempty"`
	// CPU is the processor time of each process meanwhile, in seconds.
	CPU map[string]float64 `json:"cpuSeconds,omitempty"`
	// Values are what else was measured, by name; those of memory in bytes.
	Values map[string]float64 `json:"values,omitempty"`
}

// question is what a step waits for.
type question struct {
	servers int
	what    string
	of      func(*v1alpha1.MCPServer) bool
}

// measure does something, waits until all servers answer the question, then until the subject is at rest.
func (w *world) measure(ctx context.Context, p *subject, s Step, do func() error, until question) (Step, error) {
	fail := func(err error) (Step, error) {
		return s, fmt.Errorf("%s %s, %s, %d servers: %w\n%s", s.Scenario, s.Step, s.Subject, s.Servers, err, p.lastWords())
	}
	before, err := p.rest(ctx, 0)
	if err != nil {
		return fail(err)
	}
	used, err := w.used(p)
	if err != nil {
		return fail(err)
	}
	begin := time.Now()
	if err := do(); err != nil {
		return fail(err)
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.ended:
			cancel() // nothing more will come
		case <-waiting.Done():
		}
	}()
	end, err := w.tracker.await(waiting, until.servers, until.what, until.of)
	if err != nil {
		return fail(err)
	}
	s.Seconds = max(0, end.Sub(begin).Seconds())
	after, err := p.rest(ctx, w.calm)
	if err != nil {
		return fail(err)
	}
	s.Counts = after.since(before)
	s.CPU, err = w.used(p)
	if err != nil {
		return fail(err)
	}
	for name, seconds := range used {
		s.CPU[name] -= seconds
	}
	say("  %s", s.line())
	return s, nil
}

// line is a step in short.
func (s Step) line() string {
	return fmt.Sprintf("%s %s %s, %d servers: %.2f s, %d requests, %d writes, %d × 409",
		s.Scenario, s.Step, s.Subject, s.Servers, s.Seconds, s.Counts.sum().Requests, s.Counts.writes().sum().Requests,
		s.Counts.sum().Conflicts)
}
