package main

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	// stream is how many bytes the process grows by an open stream, and full how many it
	// has while all are open.
	stream, full float64
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
	contenders := []*contender{{name: "direct", process: backend}}
	for _, name := range []string{"bare", "nginx", "ours", "token", "and Cedar"} {
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
	for _, c := range contenders {
		c.turns, c.token = map[string][]turn{}, who.token
	}
	for _, kind := range kinds {
		if err := rounds(p, kind, contenders); err != nil {
			return nil, err
		}
	}
	for _, c := range contenders[1:] {
		if err := c.holdStreams(p.streams); err != nil {
			return nil, err
		}
	}
	return contenders, nil
}

// rounds gives each contender its turns, beginning with another one in each
// round, so that whatever else the machine does meets all of them.
func rounds(p plan, kind string, contenders []*contender) error {
	for _, c := range contenders {
		if _, err := c.takeTurn(kind, p.connections, p.turn/4); err != nil {
			return fmt.Errorf("warming up %s: %w", c.name, err)
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

// holdStreams opens streams and sees what they cost while they are open.
func (c *contender) holdStreams(count int) error {
	rss, err := c.rss()
	if err != nil {
		return err
	}
	conns := make([]net.Conn, 0, count)
	defer func() {
		for _, conn := range conns {
			_ = conn.Close() //nolint:errcheck // it did its work
		}
	}()
	for range count {
		conn, err := c.openStream()
		if conn != nil {
			conns = append(conns, conn)
		}
		if err != nil {
			return fmt.Errorf("opening stream %d of %s: %w", len(conns), c.name, err)
		}
	}
	time.Sleep(100 * time.Millisecond) // the last goroutines come to rest
	full, err := c.rss()
	c.stream, c.full = (full-rss)/float64(count), full
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

// pids are the process and its children.
func (c *contender) pids() []string {
	own := strconv.Itoa(c.command.Process.Pid)
	children, err := os.ReadFile("/proc/" + own + "/task/" + own + "/children")
	if err != nil {
		return []string{own} // the kernel tells of no children
	}
	return append([]string{own}, strings.Fields(string(children))...)
}

func worked(pid string) (time.Duration, error) {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	// Fields 14 and 15 (proc(5)), counted behind the name, which may have spaces.
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("the kernel does not tell")
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	const tick = time.Second / 100 // USER_HZ, the same on every Linux
	return time.Duration(user+system) * tick, err
}

// rss is the memory of the process and its children in bytes, as the kernel counts it;
// what they share counts for each.
func (c *contender) rss() (float64, error) {
	sum := 0.0
	for _, pid := range c.pids() {
		one, err := resident(pid)
		if err != nil {
			return 0, fmt.Errorf("reading the memory of %s: %w", c.name, err)
		}
		sum += one
	}
	return sum, nil
}

func resident(pid string) (float64, error) {
	data, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			return kib * 1024, err
		}
	}
	return 0, errors.New("the kernel does not tell")
}
