package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// contender is one of those that are compared.
type contender struct {
	name string
	*process
	turns map[string][]turn // by kind
	// bridge says that it offers the server of stdioRole, behind the bridge that it stands before, if not nil.
	bridge bool
	behind *process
	// What it takes before the streams are opened, with all of them, and when they have been silent for a while.
	idle, open, rested memory
}

// The names of the contenders with which others are compared.
const (
	directName = "direct"
	bareName   = "bare"
	ours       = "ours"
	bridgeName = "bridge"
)

// players are those of the contenders that take requests of a kind.
func players(kind string, contenders []*contender) (all []*contender) {
	for _, c := range contenders {
		if c.plays(kind) {
			all = append(all, c)
		}
	}
	return all
}

func (c *contender) plays(kind string) bool {
	_, alone := alone[c.name]
	switch kind {
	case asStdio:
		return c.bridge
	case asStream:
		return !c.bridge && c.name != directName
	case asLate, asLater:
		return c.name == bareName || alone && c.name != handlersName
	case asList, asSession:
		return !c.bridge && !alone
	}
	return !c.bridge && c.name != handlersName
}

// run starts everything, measures, and stops it.
func run(ctx context.Context, p plan) ([]*contender, error) {
	dir, err := os.MkdirTemp("", "freehold-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	backend, err := start(ctx, "backend")
	if err != nil {
		return nil, err
	}
	defer backend.stop()
	who, err := startIssuer()
	if err != nil {
		return nil, err
	}
	contenders := []*contender{{name: directName, process: backend}}
	for _, name := range []string{bareName, "nginx", ours, "token", "and Cedar", aloneName, clientName, handlersName} {
		var started *process
		guard, guarded := who.guards()[name]
		switch {
		case name == "nginx" && p.nginx == "":
			continue
		case name == "nginx":
			started, err = startNginx(ctx, p.nginx, dir, backend.calls)
		case !guarded:
			started, err = start(ctx, name, backend.calls)
		case p.product == "":
			continue
		default:
			started, err = startProduct(ctx, p.product, dir, backend.calls, guard)
		}
		if err != nil {
			return nil, err
		}
		defer started.stop()
		contenders = append(contenders, &contender{name: name, process: started})
	}
	stdio, err := startBridges(ctx, p, dir, who.guards()[ours])
	for _, c := range stdio {
		defer c.stop()
		if c.behind != nil {
			defer c.behind.stop()
		}
	}
	if err != nil {
		return nil, err
	}
	contenders = append(contenders, stdio...)
	for _, c := range contenders {
		c.turns, c.token = map[string][]turn{}, who.token
	}
	return contenders, measure(p, contenders)
}

// measure measures memory, before any load, and then calls of each kind.
func measure(p plan, contenders []*contender) error {
	if p.streams > 0 {
		if err := holdStreams(p, players(asStream, contenders)); err != nil {
			return err
		}
	} else {
		time.Sleep(p.rest) // the runner collects garbage eagerly while it starts
	}
	for _, kind := range p.kinds {
		if err := rounds(p, kind, players(kind, contenders)); err != nil {
			return err
		}
	}
	return nil
}

// rounds gives each contender its turns, beginning with another one in each
// round, so that whatever else the machine does meets all of them.
func rounds(p plan, kind string, contenders []*contender) error {
	for _, c := range contenders {
		if _, err := c.takeTurn(kind, p.connections, p.turn/4); err != nil {
			return fmt.Errorf("warming up %s for %s: %w", c.name, kind, err)
		}
	}
	for round := range p.rounds {
		for i := range contenders {
			c := contenders[(i+round)%len(contenders)]
			if err := c.takesTurn(p, kind); err != nil {
				return fmt.Errorf("measuring %s: %w", c.name, err)
			}
		}
	}
	return nil
}

func (c *contender) takesTurn(p plan, kind string) error {
	worked, err := c.worked()
	if err != nil {
		return err
	}
	t, err := c.takeTurn(kind, p.connections, p.turn)
	if err != nil {
		return err
	}
	work, err := c.worked()
	t.work = work - worked
	c.turns[kind] = append(c.turns[kind], t)
	return err
}

// worked is how long the process and its children have kept a core busy, as the kernel
// counts it.
func (c *contender) worked() (time.Duration, error) {
	sum := time.Duration(0)
	for _, pid := range c.pids() {
		one, err := worked(pid)
		if err != nil {
			return 0, fmt.Errorf("reading the work of %s: %w", c.name, err)
		}
		sum += one
	}
	return sum, nil
}

// pids are the process, what is behind it, and their children and children's children.
func (c *contender) pids() []string {
	all := descendants(strconv.Itoa(c.command.Process.Pid))
	if c.behind != nil {
		all = append(all, descendants(strconv.Itoa(c.behind.command.Process.Pid))...)
	}
	return all
}

func descendants(pid string) []string {
	all := []string{pid}
	children, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err != nil {
		return all // the kernel tells of no children
	}
	for _, child := range strings.Fields(string(children)) {
		all = append(all, descendants(child)...)
	}
	return all
}

func worked(pid string) (time.Duration, error) {
	threads, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil {
		return 0, err
	}
	sum := time.Duration(0)
	for _, thread := range threads {
		// Nanoseconds on a core, waiting for one, and how often (the kernel's Documentation/scheduler/sched-stats.rst).
		var on, waits, often int64
		if _, err := fmt.Sscan(line("/proc/"+pid+"/task/"+thread.Name()+"/schedstat"), &on, &waits, &often); err != nil {
			return 0, fmt.Errorf("the kernel does not tell: %w", err)
		}
		sum += time.Duration(on)
	}
	return sum, nil
}
