//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// supervisor starts the parts of a cluster and keeps them as its children.
type supervisor struct {
	settings
	began    time.Time
	progress *os.File
	ended    sync.Mutex
}

// say reports a step that is done.
func (u *supervisor) say(what string) {
	// up may have been killed; the start goes on without a reader.
	_, _ = fmt.Fprintf(u.progress, "%6.1fs  %s\n", time.Since(u.began).Seconds(), what)
}

// component is a running part.
type component struct {
	name string
	log  string
	done chan struct{}
	err  error // how it ended, once done is closed
}

// start runs one of the cluster's binaries, or a program of the distribution.
func (u *supervisor) start(name string, args ...string) (*component, error) {
	program := filepath.Join(u.bin, name)
	if _, err := os.Stat(program); err != nil {
		program = name
	}
	c := &component{name: name, log: u.log(name), done: make(chan struct{})}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		c.err = cmd.Wait()
		log.Close()
		close(c.done)
		u.note(c)
	}()
	return c, nil
}

// note keeps for status that a part has ended. It is not started again: whoever debugs an
// operator wants to know that the API server died, not to be spared it.
func (u *supervisor) note(c *component) {
	u.ended.Lock()
	defer u.ended.Unlock()
	file, err := os.OpenFile(u.path("ended"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return // the folder is being removed
	}
	defer file.Close()
	_, _ = fmt.Fprintf(file, "%s ended (%v), see %s\n", c.name, c.err, c.log)
}

// await repeats a check until it passes, and fails with the part's last words if the part ends or takes too long.
func (c *component) await(within time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.done:
			return fmt.Errorf("%s ended: %w; the last lines of %s:\n%s", c.name, c.err, c.log, c.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %s: %w; the last lines of %s:\n%s",
				c.name, within, err, c.log, c.lastWords())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (c *component) lastWords() []byte {
	content, err := os.ReadFile(c.log)
	if err != nil {
		return []byte(err.Error())
	}
	return lastLines(content, 15)
}

// lastLines is the end of a text, as much of it as helps.
func lastLines(text []byte, n int) []byte {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}

// healthy checks a health address of a part that listens on loopback.
func healthy(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}
}

// kubectl checks by a command of the admin's.
func (u *supervisor) kubectl(args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, filepath.Join(u.bin, "kubectl"), args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+u.kubeconfig())
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", args[0], err, lastLines(output, 3))
		}
		return nil
	}
}
