package kit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is one of the control plane's own, which a test may kill, stop and
// start again on the same data, port and certificates.
type Process struct {
	name, binary string
	// dir has what the process was started with.
	dir string
	// health is the URL that answers 200 once the process serves.
	health string

	// again is the process since Start, nil before.
	again *exec.Cmd
	ended chan struct{}
	log   *tail
}

// noted makes a script that notes process id and arguments, and then is the binary: envtest tells neither.
func noted(dir, binary string) (*Process, error) {
	p := &Process{name: filepath.Base(binary), binary: binary, dir: dir, log: &tail{}}
	script := fmt.Sprintf("#!/bin/sh\necho $$ > '%s'\nprintf '%%s\\n' \"$@\" > '%s'\nexec '%s' \"$@\"\n", p.file("pid"),
		p.file("args"), binary)
	if err := os.WriteFile(p.script(), []byte(script), 0o700); err != nil { //nolint:gosec // a script must be executable
		return nil, fmt.Errorf("preparing %s: %w", p.name, err)
	}
	return p, nil
}

func (p *Process) script() string            { return filepath.Join(p.dir, p.name) }
func (p *Process) file(ending string) string { return p.script() + "." + ending }

// Kill ends the process at once, as a crash of its machine does, and returns when it has ended.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if p.again != nil {
		<-p.ended
		return nil
	}
	// It is envtest's child: gone once envtest has waited for it.
	for end := time.Now().Add(processTimeout); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if errors.Is(p.signal(0), os.ErrProcessDone) {
			return nil
		}
	}
	return fmt.Errorf("killing %s: it does not end", p.name)
}

// Pause stops the process without ending it; its connections stay open.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

// CPU is the processor time that the process has taken, which says more than the clock on a machine that does other
// things (https://docs.kernel.org/scheduler/sched-stats.html#proc-pid-schedstat).
func (p *Process) CPU() (time.Duration, error) {
	id, err := p.id()
	if err != nil {
		return 0, err
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", id))
	if err != nil {
		return 0, fmt.Errorf("reading what %s took: %w", p.name, err)
	}
	var sum, took time.Duration
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err == nil {
			_, err = fmt.Sscan(string(text), &took)
		}
		if err != nil {
			return 0, fmt.Errorf("reading what %s took: %w", p.name, err)
		}
		sum += took
	}
	return sum, nil
}

func (p *Process) id() (int, error) {
	text, err := os.ReadFile(p.file("pid"))
	if err != nil {
		return 0, fmt.Errorf("finding %s: %w", p.name, err)
	}
	id, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("finding %s: %w", p.name, err)
	}
	return id, nil
}

func (p *Process) signal(s syscall.Signal) error {
	id, err := p.id()
	if err != nil {
		return err
	}
	process, err := os.FindProcess(id)
	if err != nil {
		return fmt.Errorf("finding %s: %w", p.name, err)
	}
	if err := process.Signal(s); err != nil {
		return fmt.Errorf("signalling %s: %w", p.name, err)
	}
	return nil
}

// Start starts a killed process again, with more flags than it had at first, and returns once it serves.
func (p *Process) Start(ctx context.Context, flags ...string) error {
	text, err := os.ReadFile(p.file("args"))
	if err != nil {
		return fmt.Errorf("starting %s again: %w", p.name, err)
	}
	first := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	p.again = exec.Command(p.binary, append(first, flags...)...)
	p.again.Stdout, p.again.Stderr = p.log, p.log
	p.ended = make(chan struct{})
	if err := p.again.Start(); err != nil {
		return fmt.Errorf("starting %s again: %w", p.name, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.again.Wait() // how it ended is in its log
	}()
	if err := os.WriteFile(p.file("pid"), []byte(strconv.Itoa(p.again.Process.Pid)), 0o600); err != nil {
		return fmt.Errorf("noting %s: %w", p.name, err)
	}
	return p.Serves(ctx)
}

// Serves returns once the process answers that it is well.
func (p *Process) Serves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, processTimeout)
	defer cancel()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // only its health is asked
	defer transport.CloseIdleConnections()
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.health, http.NoBody)
		if err != nil {
			return fmt.Errorf("asking %s: %w", p.name, err)
		}
		if response, err := transport.RoundTrip(request); err == nil {
			_ = response.Body.Close() // nothing was read of it
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-pause.C:
		case <-p.ended:
			return fmt.Errorf("%s ended; it said last:\n%s", p.name, p.log)
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve; it said last:\n%s", p.name, p.log)
		}
	}
}

// stop ends what Start started, and lets what was paused go on, so that it can be ended.
func (p *Process) stop() error {
	if p == nil {
		return nil
	}
	if p.again == nil {
		if err := p.Resume(); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	select {
	case <-p.ended:
		return nil
	default:
		return p.Kill()
	}
}
