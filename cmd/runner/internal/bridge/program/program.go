// Package program is `freehold-runner bridge`: the backend's own side of the transports stdio and sse. Main reads its
// flags; Server and Drain are for who bridges in another program.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/freehold-dev/freehold/apis/printable"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/internal/logs"
	"github.com/freehold-dev/freehold/cmd/runner/internal/bridge"
	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
	"github.com/freehold-dev/freehold/cmd/runner/internal/stdio"
)

// settings are the flags of `freehold-runner bridge`, as the pod template of a
// backend has them.
type settings struct {
	// install is the path to which the program copies itself, and does nothing else.
	install string
	// address is where the bridge listens.
	address string
	// events is the URL of a server of the transport HTTP+SSE; a child otherwise.
	events   *url.URL
	shared   bool
	sessions int
	idle     time.Duration
	env      []string
	command  []string
	// closed says that only the server's proxies are answered, who show what has the SHA-256 sum.
	closed bool
	sum    string
}

// How long a bridge waits.
const (
	// startTime is how long it is not ready while its server has said nothing.
	startTime = 3 * time.Second
	// bridgeDrain is how long calls may take to end after SIGTERM.
	bridgeDrain = 15 * time.Second
	// endTime is how long the server may take to end after that.
	endTime = 6 * time.Second
	// bridgeMemory is the heap of the bridge, which shares the server's memory, above
	// which it collects garbage at all costs.
	bridgeMemory = 96 << 20
	// bridgeConnections is how many connections there are at a time, half of them from one address: as many as a proxy has
	// clients.
	bridgeConnections = 4096
)

// maxWords is the longest text of the server's in a sentence of ours, in bytes.
const maxWords = 200

func read(args []string, usage io.Writer) (settings, error) {
	s := settings{}
	var events string
	flags := flag.NewFlagSet("freehold-runner bridge", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&s.install, "install", "", "copy the program to this path, and end")
	flags.StringVar(&s.address, "address", ":8080", "address on which streamable HTTP is served")
	flags.StringVar(&events, "sse", "",
		"URL of a server of the transport HTTP+SSE; without it the arguments are a command that speaks on standard input "+
			"and output")
	flags.BoolVar(&s.shared, "shared", false, "one server for all sessions, not one for each")
	flags.IntVar(&s.sessions, "sessions", bridge.DefaultSessions,
		"how many sessions there may be at a time, each with a server of its own")
	flags.DurationVar(&s.idle, "idle", 0,
		"how long a session lasts that has no call and no stream open; if 0 "+bridge.IdleTime.String()+
			", or "+bridge.LeftTime.String()+" after its client has closed the stream that it held open")
	flags.Func("env", "name of a variable that the server gets; may be repeated", func(name string) error {
		s.env = append(s.env, name)
		return nil
	})
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(usage)
		flags.PrintDefaults()
	}
	if err != nil {
		return s, err
	}
	s.command = flags.Args()
	switch {
	case s.install != "":
	case events != "":
		if s.events, err = url.Parse(events); err != nil || s.events.Host == "" {
			return s, fmt.Errorf("--sse is %q: write a URL, for example http://127.0.0.1:8080/sse", events)
		}
	case len(s.command) == 0:
		return s, errors.New("no command: write the program that speaks MCP on its standard input and output behind --")
	}
	return s, nil
}

// misconfigured is the exit code for what a restart cannot cure.
const misconfigured = 2

// Main runs the command, and returns its exit code. It needs no run config and no API server.
func Main(args []string) int {
	debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), bridgeMemory))
	s, err := read(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil && s.install != "" {
		err = install(s.install)
		if err == nil {
			return 0
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "freehold-runner bridge:", err)
		return misconfigured
	}
	s.sum, s.closed = os.LookupEnv(runconfig.EnvProxySum)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := s.serve(ctx, stop, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "freehold-runner bridge:", err)
		return 1
	}
	return 0
}

// install copies this program, which is to run in a container of another image.
func install(path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // it is only read
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return fmt.Errorf("installing the bridge: %w", err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("installing the bridge: %w", err)
	}
	return os.Chmod(path, 0o555)
}

// server is what is behind the bridge.
func (s settings) server(words *stdio.Words) bridge.Server {
	junk := atomic.Pointer[string]{}
	last := func() string {
		if text := junk.Load(); text != nil {
			return *text
		}
		return ""
	}
	if s.events != nil {
		return bridge.Server{Open: bridge.Events(s.events, nil), Junk: last}
	}
	env, withheld := stdio.Environment(os.Environ(), s.env)
	if len(withheld) > 0 {
		words.Say(fmt.Appendf(nil, "freehold-runner: variables of the image that the server does not get unless spec.env "+
			"declares them: %s",
			printable.Line(strings.Join(withheld, ", "), maxWords)), 0)
	}
	env, led := stdio.Places(env, os.Environ(), s.env, runconfig.ScratchPath)
	if len(led) > 0 {
		words.Say(fmt.Appendf(nil, "freehold-runner: the server cannot write to the image's %s: it gets %s, "+
			"which ends with the pod", strings.Join(led, " and "), runconfig.ScratchPath), 0)
	}
	args := make([]string, len(s.command))
	for i, arg := range s.command {
		args[i] = stdio.AsWritten(arg)
	}
	command := stdio.Command{
		Args: args, Env: env, Words: words,
		Junk: func(line []byte) {
			text := printable.Line(string(line), maxWords)
			junk.Store(&text)
			words.Say(fmt.Appendf(nil, "freehold-runner: the server printed on its standard output what is not MCP: %q", text),
				0)
		},
	}
	return bridge.Server{Modern: true, Junk: last, Open: func() (bridge.Conn, error) {
		p, err := command.Start()
		if err != nil {
			return nil, err // not a nil *Process in an interface
		}
		return bridge.Child(p), nil
	}}
}

// serve serves until ctx ends, then drains; again ends the drain at a second signal.
func (s settings) serve(ctx context.Context, again func(), log io.Writer) error {
	words := stdio.NewWords(log)
	logger := slog.New(logs.JSON.Handler(log, slog.LevelInfo))
	background, cancel := context.WithCancel(context.Background())
	defer cancel()
	if os.Getpid() == 1 {
		go stdio.Reap(background)
	}
	b := bridge.New(bridge.Config{
		Server: s.server(words), Shared: s.shared, Sessions: s.sessions, Idle: s.idle,
		Log: logger,
	})
	defer b.Close()
	started := make(chan error, 1)
	if s.events == nil {
		go func() { started <- b.Start(background) }()
		select {
		case err := <-started:
			if err != nil {
				return err
			}
		case <-time.After(startTime):
		case <-ctx.Done():
			return nil
		}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.address)
	if errors.Is(err, syscall.EADDRINUSE) && s.events == nil {
		return fmt.Errorf("the server listens at %s itself, where its bridge should: if it serves HTTP, write transport: "+
			"streamable-http; else write another spec.port", s.address)
	}
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := Server(s.guarded(b), logger, slog.LevelWarn)
	listener = budget.Listen(listener, share.New(bridgeConnections, share.Half(bridgeConnections)), budget.MaxFields)
	failed := make(chan error, 1)
	go proxy.Serve(server, listener, failed)
	for {
		select {
		case err := <-failed:
			return fmt.Errorf("serving: %w", err)
		case err := <-started:
			if err != nil {
				return err
			}
			started = nil
		case <-ctx.Done():
			again()
			return Drain(server, b, time.Now().Add(bridgeDrain), endTime)
		}
	}
}

// guarded has a bridge that is closed answer the server's proxies alone.
func (s settings) guarded(b *bridge.Bridge) http.Handler {
	if !s.closed {
		return b
	}
	return bridge.Closed(s.sum, b)
}

// Server serves a bridge, and logs at a level who breaks the rules of HTTP or TLS.
func Server(b http.Handler, logger *slog.Logger, level slog.Level) *http.Server {
	return &http.Server{
		Handler: b, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: proxy.MaxRequestHeader,
		ErrorLog: slog.NewLogLogger(logger.Handler(), level),
	}
}

// Drain lets calls end until a time, then the server, which may take so long.
func Drain(server *http.Server, b *bridge.Bridge, until time.Time, most time.Duration) error {
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	b.Drain()
	_ = server.Shutdown(ctx) //nolint:errcheck // what has not ended breaks off
	b.Close()
	b.Wait(most)
	return server.Close()
}
