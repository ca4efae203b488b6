package stdio

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Command says what to run.
type Command struct {
	// Args are the program, which is looked for in PATH, and its arguments.
	Args []string
	// Env is the whole environment, as NAME=VALUE.
	Env []string
	// Words get what children say on standard error.
	Words *Words
	// Junk, if not nil, is told what is not JSON on standard output, cut short.
	Junk func(line []byte)
}

// How long a child may take to end: after its standard input was closed, as the
// transport asks of it, and after SIGTERM. Then its group is killed.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#stdio
const (
	closePatience = 2 * time.Second
	termPatience  = 3 * time.Second
	// drainTime is how long the output of a child that has ended is read on.
	drainTime = 500 * time.Millisecond
)

// sendTime is how long a child may take to read one message. Tests change it.
var sendTime = time.Minute

// Errors of Send.
var (
	// ErrEnded is that of a child that has ended.
	ErrEnded = errors.New("the server's process has ended")
	// ErrNotReading is that of a child that does not read its standard input, or has closed it. It is ended.
	ErrNotReading = errors.New("the server's process does not read its standard input")
)

// Process is a child, the leader of a process group of its own.
type Process struct {
	command *exec.Cmd
	mark    string // that its processes have
	in      *os.File
	lines   *lines
	// sending is held while a message is written.
	sending chan struct{}
	ending  chan struct{} // closed by End
	ended   chan struct{}
	why     string                // how it ended, once ended is closed
	fault   atomic.Pointer[error] // for which it is ended, nil for none
	close   sync.Once
}

// Start starts a child. The error says that the program cannot be started.
func (c Command) Start() (*Process, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, childIn.Close(), in.Close())
	}
	words, childErr, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, childIn.Close(), in.Close(), out.Close(), childOut.Close())
	}
	command := exec.Command(c.Args[0], c.Args[1:]...) //nolint:gosec,noctx // it is the user's; End ends it
	command.Stdin, command.Stdout, command.Stderr = childIn, childOut, childErr
	// Its children are in its group and have its mark, so that all of them can be ended.
	mark := markName + rand.Text()
	command.Env = append(slices.Clone(c.Env), mark)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	own.Lock()
	err = command.Start()
	if err == nil {
		own.pids[command.Process.Pid] = true
	}
	own.Unlock()
	// The child has its own copies, and with ours open no end of it would be seen.
	_ = errors.Join(childIn.Close(), childOut.Close(), childErr.Close()) //nolint:errcheck // nothing was written
	if err != nil {
		_ = errors.Join(in.Close(), out.Close(), words.Close()) //nolint:errcheck // nothing was written
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	p := &Process{
		command: command, mark: mark, in: in, lines: newLines(out, c.Junk),
		sending: make(chan struct{}, 1), ending: make(chan struct{}), ended: make(chan struct{}),
	}
	said := make(chan struct{})
	go func() { c.Words.relay(words); close(said) }()
	go p.wait(out, words, said)
	return p, nil
}

// wait waits for the end of the child, and ends what it has left behind: it holds the
// pipes, and nobody else will.
func (p *Process) wait(out, words *os.File, said <-chan struct{}) {
	err := p.command.Wait()
	own.Lock()
	delete(own.pids, p.command.Process.Pid)
	own.Unlock()
	p.signal(syscall.SIGKILL)
	p.why = "exit code 0"
	if err != nil {
		p.why = err.Error()
	}
	if fault := p.fault.Load(); fault != nil {
		p.why = (*fault).Error() + "; " + p.why
	}
	close(p.ended)
	// What it wrote last is in the pipes; one that left its group may hold them open.
	deadline := time.Now().Add(drainTime)
	_ = out.SetReadDeadline(deadline)   //nolint:errcheck // a pipe has deadlines
	_ = words.SetReadDeadline(deadline) //nolint:errcheck // a pipe has deadlines
	<-said
	_ = p.in.Close() //nolint:errcheck // nobody reads it
}

// signal reaches the whole group, and SIGKILL also what has left it.
func (p *Process) signal(s syscall.Signal) {
	_ = syscall.Kill(-p.command.Process.Pid, s) //nolint:errcheck // there may be nothing left
	if s == syscall.SIGKILL {
		killMarked(p.mark)
	}
}

// Send writes one message, which has no line feed, and waits until the child has read
// it or the pipe holds it. A child that reads nothing for a minute is ended.
func (p *Process) Send(ctx context.Context, message []byte) error {
	select {
	case p.sending <- struct{}{}:
	case <-p.ended:
		return p.gone()
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.sending }()
	_ = p.in.SetWriteDeadline(time.Now().Add(sendTime)) //nolint:errcheck // a pipe has deadlines
	_, err := p.in.Write(append(message, '\n'))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return p.unread() // half a message may be in the pipe
	case err != nil:
		return p.gone()
	}
	return nil
}

// unread ends a child that reads no more.
func (p *Process) unread() error {
	p.fault.Store(&ErrNotReading)
	p.End()
	return ErrNotReading
}

// gone is ErrEnded, and how it ended. A child that lives on has closed its standard input, unless End has.
func (p *Process) gone() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%w (%s)", ErrEnded, p.why)
	case <-p.ending:
		return ErrEnded
	case <-time.After(closePatience):
		return p.unread()
	}
}

// Receive is the next message, valid until the next call of Receive; *TooLong for one
// that is too long, after which the next one can be had, and any other error where
// none follows.
func (p *Process) Receive() ([]byte, error) {
	line, err := p.lines.next()
	if err == nil {
		return line, nil
	}
	var tooLong *TooLong
	if errors.As(err, &tooLong) {
		return nil, err
	}
	if errors.Is(err, errEndless) {
		p.fault.Store(&errEndless)
	}
	// It closed its standard output, has ended, or waits for ever until more of a line is read.
	select {
	case <-p.ended:
	case <-time.After(closePatience):
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
	_ = p.lines.from.Close() //nolint:errcheck // it was read to its end
	return nil, ErrEnded
}

// Why says how the child ended, for example "exit status 1". It waits until it has.
func (p *Process) Why() string {
	<-p.ended
	return p.why
}

// End ends the child and its group: it closes its standard input, and sends SIGTERM
// and SIGKILL if that is not enough. It returns at once.
func (p *Process) End() {
	p.close.Do(func() { close(p.ending); go p.end() })
}

func (p *Process) end() {
	_ = p.in.Close() //nolint:errcheck // a write that waits ends with it
	for _, next := range []struct {
		patience time.Duration
		signal   syscall.Signal
	}{{closePatience, syscall.SIGTERM}, {termPatience, syscall.SIGKILL}} {
		select {
		case <-p.ended:
			return
		case <-time.After(next.patience):
			p.signal(next.signal)
		}
	}
}
