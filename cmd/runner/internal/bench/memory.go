package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// holdStreams lets all processes come to rest, opens streams to each, and reads what the processes take: at once, and
// at rest.
func holdStreams(p plan, contenders []*contender) error {
	time.Sleep(p.rest)
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			_ = conn.Close() //nolint:errcheck // it did its work
		}
	}()
	for _, c := range contenders {
		before, err := c.memory()
		if err != nil {
			return err
		}
		for n := range p.streams {
			conn, err := c.openStream()
			if conn != nil {
				conns = append(conns, conn)
			}
			if err != nil {
				return fmt.Errorf("opening stream %d of %s: %w", n+1, c.name, err)
			}
		}
		time.Sleep(100 * time.Millisecond) // the last goroutines come to rest
		if c.open, err = c.memory(); err != nil {
			return err
		}
		c.idle = before
	}
	time.Sleep(p.rest)
	for _, c := range contenders {
		var err error
		if c.rested, err = c.memory(); err != nil {
			return err
		}
	}
	return nil
}

// memory is what a process and its children take, in bytes, as the kernel counts it; what they share counts for each.
type memory struct {
	// Own is what is theirs alone, Files what is mapped from files, most of it the program.
	Own   float64 `json:"own"`
	Files float64 `json:"files"`
}

// memory reads what the process takes.
func (c *contender) memory() (memory, error) {
	sum := memory{}
	for _, pid := range c.pids() {
		one, err := resident(pid)
		if err != nil {
			return sum, fmt.Errorf("reading the memory of %s: %w", c.name, err)
		}
		sum.Own, sum.Files = sum.Own+one.Own, sum.Files+one.Files
	}
	return sum, nil
}

func resident(pid string) (memory, error) {
	data, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return memory{}, err
	}
	m := memory{}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib := func() float64 {
			value, failed := strconv.ParseFloat(fields[1], 64)
			err = errors.Join(err, failed)
			return value * 1024
		}
		switch fields[0] {
		case "RssAnon:":
			m.Own = kib()
		case "RssFile:":
			m.Files = kib()
		}
	}
	if err == nil && m.Own == 0 {
		err = errors.New("the kernel does not tell")
	}
	return m, err
}
