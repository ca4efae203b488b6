// Command bench measures what the proxy and its guards cost, against no proxy at all
// and against a bare httputil.ReverseProxy, on loopback, in processes of their own.
//
// main.go starts the processes; bare.go and nginx.go are proxies to compare with, proxies.go is the runner's with more
// and less of net/http, product.go the
// runner's own binary, and an issuer of tokens for it; backend.go answers; bridges.go has a server on standard input
// and output, and what offers it over HTTP; client.go calls, sessions.go in sessions; memory.go reads what processes
// take; rounds.go has the order in which they are measured; report.go tells the
// result.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// plan says what is measured.
type plan struct {
	// rounds is how often each contender has its turn.
	rounds int
	// turn is how long it lasts for each kind of call.
	turn time.Duration
	// connections are kept busy with one call each.
	connections int
	// streams are held open at once to see what one costs.
	streams int
	// product is the runner's binary, left out with all its guards if empty.
	product string
	// kinds are the calls that are measured.
	kinds []string
	// rest is how long processes are left alone before their memory is read, or calls are measured alone.
	rest time.Duration
	// nginx is that program, left out if empty.
	nginx string
	// npm has the folder in which npm has installed bridges of others, which are left out if it is empty.
	npm string
}

// roleVar names what a process plays; without it, it is the client that asks
// the others.
const roleVar = "FREEHOLD_BENCH_ROLE"

func main() {
	if role := os.Getenv(roleVar); role != "" {
		fmt.Fprintln(os.Stderr, play(role, os.Args[1:]))
		os.Exit(1)
	}
	p := plan{}
	var version, results string
	flag.IntVar(&p.rounds, "rounds", 9, "how often each contender has its turn")
	flag.DurationVar(&p.turn, "turn", 2*time.Second, "how long a turn lasts for each kind of call")
	flag.IntVar(&p.connections, "connections", 4, "how many connections are kept busy")
	flag.IntVar(&p.streams, "streams", 1000, "how many event streams are held open at once")
	flag.StringVar(&p.product, "runner", "", "the runner's binary; without it the bare proxy is measured alone")
	flag.StringVar(&p.nginx, "nginx", "", "nginx's binary; without it nginx is left out")
	flag.DurationVar(&p.rest, "rest", 25*time.Second,
		"how long processes are left alone before their memory is read, or calls are measured alone")
	flag.StringVar(&p.npm, "npm", "",
		"folder of node_modules with supergateway and mcp-proxy; without it they are left out")
	only := flag.String("only", "",
		"one kind of call to measure, of "+strings.Join(kinds, ", ")+"; all if empty, and then open streams too")
	flag.StringVar(&results, "json", "", "file to which the result is written as JSON too")
	flag.StringVar(&version, "version", "", "what is measured, for the report")
	flag.Parse()
	p.kinds = kinds
	if *only != "" {
		p.kinds, p.streams = []string{*only}, 0
	}
	contenders, err := run(context.Background(), p)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	r := result(p, version, contenders)
	fmt.Print(r.text())
	if results != "" {
		if err := r.write(results); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
	}
}

// play is what a process of another role does until it is killed.
func play(role string, args []string) error {
	switch role {
	case "backend":
		return serveBackend()
	case "bare":
		return serveBare(args[0])
	case stdioRole:
		return speak(os.Stdin, os.Stdout)
	}
	if process, known := alone[role]; known {
		return serveProxy(args[0], process)
	}
	return fmt.Errorf("no such role: %s", role)
}

// process is one that was started.
type process struct {
	command *exec.Cmd
	// calls is where it is called, token with what.
	calls, token string
	// parent says that it has children, which it ends if it is asked to end.
	parent bool
	// sessions are those that the client has begun, one for each connection.
	sessions []string
}

// start starts this program in another role and waits until it says where it
// listens.
func start(ctx context.Context, role string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	p := &process{command: exec.CommandContext(ctx, self, args...)}
	p.command.Env = append(os.Environ(), roleVar+"="+role)
	p.command.Stderr = os.Stderr
	said, err := p.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", role, err)
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", role, err)
	}
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("%s did not say where it listens: %w", role, err)
	}
	p.calls = strings.TrimSpace(line)
	return p, nil
}

func (p *process) stop() {
	signal := syscall.SIGKILL
	if p.parent {
		signal = syscall.SIGTERM
	}
	_ = p.command.Process.Signal(signal) //nolint:errcheck // it may have ended
	_ = p.command.Wait()                 //nolint:errcheck // it was told to
}
