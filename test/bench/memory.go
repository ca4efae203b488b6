package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/test/kit"
)

const (
	// settling is how long a process is left alone before its memory is read, and resting how long it is once more after a
	// burst: Go gives back what that took little by little, and collects what it left only after two minutes.
	settling = 30 * time.Second
	resting  = 4 * time.Minute
	// strange is how many Secrets, and how many ConfigMaps of 100 KB, are put beside the servers.
	strange = 400
)

// memory measures what the operator's own binary keeps: idle, with n servers
// that it brought up, and beside Secrets and ConfigMaps that are not its own.
func (b *bench) memory(ctx context.Context, n int) error {
	return b.onWorld(ctx, func(ctx context.Context, w *world) error {
		pid, stop, err := b.binary(ctx, w)
		if err != nil {
			return err
		}
		defer stop()
		read := func(step string, servers int, after time.Duration) error {
			if err := pause(ctx, after); err != nil {
				return errors.Join(err, stop())
			}
			all, anonymous, err := resident(pid)
			if err != nil {
				return errors.Join(err, stop())
			}
			say("  memory %s: %.1f MB resident, of that %.1f not of a file", step, float64(all)/1e6, float64(anonymous)/1e6)
			b.record(Step{Scenario: "memory", Step: step, Subject: freehold, Servers: servers, Values: map[string]float64{
				"resident": float64(all), "anonymous": float64(anonymous),
			}})
			return nil
		}
		if err := read("idle", 0, settling); err != nil {
			return err
		}
		if err := w.create(ctx, n); err != nil {
			return err
		}
		if _, err := w.tracker.await(ctx, n, "servers are ready", settled(1)); err != nil {
			return err
		}
		if err := read("burst", n, settling); err != nil {
			return err
		}
		if err := read("servers", n, resting); err != nil {
			return err
		}
		if err := w.clutter(ctx, strange); err != nil {
			return err
		}
		return read("foreign", n, settling)
	})
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// binary starts the operator's own binary.
func (b *bench) binary(ctx context.Context, w *world) (pid int, stop func() error, err error) {
	command := exec.CommandContext(ctx, b.operator, "--runner-image="+runnerImage, "--probe-address=0",
		"--log-level=error",
		"--identity-namespace="+kit.SystemNamespace)
	command.Env = append(os.Environ(), "KUBECONFIG="+w.kubeconfig)
	said := &bytes.Buffer{}
	command.Stderr = said
	if err := command.Start(); err != nil {
		return 0, nil, fmt.Errorf("starting the operator: %w", err)
	}
	stop = func() error {
		if err := command.Process.Signal(syscall.SIGTERM); err != nil {
			return fmt.Errorf("the operator had ended: %s", said)
		}
		return command.Wait()
	}
	return command.Process.Pid, stop, nil
}

// clutter creates n Secrets and n ConfigMaps of 100 KB that are not Freehold's.
func (w *world) clutter(ctx context.Context, n int) error {
	value := strings.Repeat("x", 100_000)
	return each(ctx, n, func(i int) error {
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("foreign-%d", i), Namespace: namespace}
		for _, object := range []client.Object{
			&corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"value": value}},
			&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"value": value}},
		} {
			if err := w.Client.Create(ctx, object); err != nil {
				return fmt.Errorf("creating what is not ours: %w", err)
			}
		}
		return nil
	})
}
