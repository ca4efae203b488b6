package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/freehold-dev/freehold/test/kit"
)

// memoryLimit is the chart's, in bytes.
const memoryLimit = 256 << 20

// supervised is the operator's own binary as kubelet runs it: killed when it takes more
// memory than the chart allows, and started again when it has ended.
type supervised struct {
	// peak is the most memory it had that no file backs, in bytes, and restarts how often it
	// was started again, since the two were read.
	peak     atomic.Int64
	restarts atomic.Int64
	cancel   context.CancelFunc
	done     sync.WaitGroup
	said     bytes.Buffer
}

// backOff is how long kubelet waits before the first restart.
const backOff = 10 * time.Second

func (b *bench) supervise(ctx context.Context, w *world) (*supervised, error) {
	s := &supervised{}
	ctx, s.cancel = context.WithCancel(ctx)
	command, err := s.start(b.operator, w)
	if err != nil {
		s.cancel()
		return nil, err
	}
	s.done.Go(func() {
		for {
			s.watch(ctx, command)
			if ctx.Err() != nil {
				return
			}
			s.restarts.Add(1)
			say("    the operator has ended: %.300s", s.said.String())
			if pause(ctx, backOff) != nil {
				return
			}
			if command, err = s.start(b.operator, w); err != nil {
				say("    %v", err)
				return
			}
		}
	})
	return s, nil
}

func (s *supervised) start(operator string, w *world) (*exec.Cmd, error) {
	command := exec.Command(operator, "--runner-image="+runnerImage, "--probe-address=0", "--log-level=error",
		"--identity-namespace="+kit.SystemNamespace)
	command.Env = append(os.Environ(), "KUBECONFIG="+w.kubeconfig)
	s.said.Reset()
	command.Stderr = &s.said
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting the operator: %w", err)
	}
	return command, nil
}

// watch returns when the process has ended, which it does with ctx.
func (s *supervised) watch(ctx context.Context, command *exec.Cmd) {
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // how it ended, it says
		close(ended)
	}()
	ticks := time.NewTicker(50 * time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case <-ended:
			return
		case <-ctx.Done():
			_ = command.Process.Signal(syscall.SIGTERM) // it may have ended
			<-ended
			return
		case <-ticks.C:
			_, anonymous, err := resident(command.Process.Pid)
			if err != nil {
				continue // it has ended
			}
			s.peak.Store(max(s.peak.Load(), anonymous))
			if anonymous > memoryLimit {
				_ = command.Process.Kill()
			}
		}
	}
}

func (s *supervised) stop() error {
	s.cancel()
	s.done.Wait()
	return nil
}
