package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// subject is a running process that is measured.
type subject struct {
	command *exec.Cmd
	in      io.WriteCloser
	answers chan answer
	said    string // the file of what it said to people
	ended   chan struct{}
}

// patience is how long a subject may take to start or to answer.
const patience = 2 * time.Minute

// startSubject starts this program again as a subject, and returns once that waits for servers.
func startSubject(ctx context.Context, s settings) (*subject, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	p := &subject{command: exec.CommandContext(ctx, self), answers: make(chan answer), ended: make(chan struct{})}
	p.command.Env = append(os.Environ(), subjectVariable+"="+string(text))
	p.said = filepath.Join(filepath.Dir(s.Kubeconfig), s.Subject+".log")
	log, err := os.Create(p.said)
	if err != nil {
		return nil, fmt.Errorf("making a log: %w", err)
	}
	defer log.Close() // the child has its own
	p.command.Stderr = log
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.Subject, err)
	}
	go p.listen(out)
	if _, err := p.hear(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", s.Subject, err), p.stop())
	}
	return p, nil
}

func (p *subject) listen(out io.Reader) {
	for lines := json.NewDecoder(bufio.NewReader(out)); ; {
		a := answer{}
		if err := lines.Decode(&a); err != nil {
			break
		}
		p.answers <- a
	}
	_ = p.command.Wait() // what it said is in its log
	close(p.ended)
}

func (p *subject) hear() (answer, error) {
	select {
	case a := <-p.answers:
		return a, nil
	case <-p.ended:
		return answer{}, fmt.Errorf("it ended: %s", p.lastWords())
	case <-time.After(patience):
		return answer{}, errors.New("it does not answer")
	}
}

// ask returns what the subject says to a line.
func (p *subject) ask(line string) (answer, error) {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return answer{}, fmt.Errorf("asking a subject: %w: %s", err, p.lastWords())
	}
	return p.hear()
}

// lastWords are the end of the subject's log.
func (p *subject) lastWords() string {
	const enough = 2000
	text := oneLine(p.said)
	return text[max(0, len(text)-enough):]
}

// stop ends the subject and waits for its end.
func (p *subject) stop() error {
	_ = p.in.Close() // it may have ended already
	select {
	case <-p.ended:
		return nil
	case <-time.After(10 * time.Second):
		return errors.Join(p.command.Process.Kill(), errors.New("a subject had to be killed"))
	}
}

// rest waits until the subject has sent nothing for a while, and returns what it
// has sent until then. Watches that go on receiving are no request.
func (p *subject) rest(ctx context.Context, calm time.Duration) (Counts, error) {
	last, since := -1, time.Now()
	for {
		a, err := p.ask(askCounts)
		if err != nil {
			return nil, err
		}
		if now := a.Counts.sum().Requests; now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) >= calm {
			return a.Counts, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for a subject to come to rest: %w", ctx.Err())
		}
	}
}
