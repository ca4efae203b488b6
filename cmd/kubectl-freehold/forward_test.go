package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// echoes is a pod that writes its name before each line that it reads.
func echoes(t *testing.T, name string) (address string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					fmt.Fprintf(conn, "%s %s\n", name, lines.Text())
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func readyPod(name string, ready bool) corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
	}
}

// New connections go to a pod that is ready, those that are open stay where they are, and a tunnel without users ends.
func TestForwardFollowsThePods(t *testing.T) {
	addresses := map[string]string{"a": echoes(t, "a"), "b": echoes(t, "b")}
	var pods atomic.Pointer[[]corev1.Pod]
	var away atomic.Bool
	ended := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
	f := &forwarder{
		told: io.Discard,
		pods: func(context.Context) ([]corev1.Pod, error) {
			if away.Load() {
				return nil, errors.New("away")
			}
			return *pods.Load(), nil
		},
		open: func(pod string) (*tunnel, error) {
			return &tunnel{
				pod: pod, address: addresses[pod], ended: ended[pod], end: func() { close(ended[pod]) },
			}, nil
		},
	}
	pods.Store(&[]corev1.Pod{readyPod("a", true)})
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { served <- f.serve(ctx, listener) }()
	dial := func() (net.Conn, func() string) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute)) // a test that fails ends
		from := bufio.NewReader(conn)
		return conn, func() string {
			fmt.Fprintln(conn, "hello")
			line, err := from.ReadString('\n')
			if err != nil {
				t.Errorf("no answer: %v", err)
			}
			return line
		}
	}
	first, ask := dial()
	if got := ask(); got != "a hello\n" {
		t.Errorf("the first pod says %q", got)
	}
	pods.Store(&[]corev1.Pod{readyPod("a", false), readyPod("b", true)})
	_, askB := dial()
	if got := askB(); got != "b hello\n" {
		t.Errorf("after the first pod is not ready, %q", got)
	}
	if got := ask(); got != "a hello\n" {
		t.Errorf("the connection that was open says %q", got)
	}
	pods.Store(&[]corev1.Pod{readyPod("a", true), readyPod("b", true)})
	away.Store(true)
	if _, ask := dial(); ask() != "b hello\n" {
		t.Error("without the API server the pod is another one")
	}
	away.Store(false)
	if _, ask := dial(); ask() != "b hello\n" {
		t.Error("a connection left a pod that is ready")
	}
	first.Close()
	<-ended["a"]
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	<-ended["b"]
}

// As long as a pod is ready each new connection is carried, however often pods are replaced, and nothing of those that
// are gone is left. FREEHOLD_FORWARD is how long, a second where it is not set.
func TestForwardOutlastsItsPods(t *testing.T) {
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv("FREEHOLD_FORWARD"), "1s"))
	if err != nil {
		t.Fatal(err)
	}
	addresses := []string{echoes(t, "a"), echoes(t, "b")}
	var ready, opened, left atomic.Int64
	f := &forwarder{
		told: io.Discard,
		pods: func(context.Context) ([]corev1.Pod, error) {
			n := ready.Load()
			return []corev1.Pod{readyPod(fmt.Sprint(n-1), false), readyPod(fmt.Sprint(n), true)}, nil
		},
		open: func(pod string) (*tunnel, error) {
			ended := make(chan struct{})
			return &tunnel{
				pod: pod, address: addresses[opened.Add(1)%2], ended: ended,
				end: sync.OnceFunc(func() { left.Add(1); close(ended) }),
			}, nil
		},
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- f.serve(ctx, listener) }()
	var callers sync.WaitGroup
	var answers atomic.Int64
	begun := time.Now()
	// Whatever the machine does besides, some calls are answered, and some tunnels left.
	goesOn := func() bool {
		return time.Since(begun) < lasts || (answers.Load() < 4 || opened.Load() < 4) && time.Since(begun) < lasts+time.Minute
	}
	for range 4 {
		callers.Go(func() {
			for ; goesOn(); answers.Add(1) {
				if err := greets(ctx, listener.Addr().String()); err != nil {
					t.Errorf("after %d answers: %v", answers.Load(), err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	for ; goesOn(); ready.Add(1) {
		time.Sleep(20 * time.Millisecond)
	}
	callers.Wait()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(time.Minute); left.Load() < opened.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("of %d tunnels %d have ended", opened.Load(), left.Load())
		}
	}
	t.Logf("%d answers through %d tunnels", answers.Load(), opened.Load())
	if answers.Load() < 4 || opened.Load() < 4 {
		t.Errorf("%d answers through %d tunnels", answers.Load(), opened.Load())
	}
}

// greets has a pod answer through a connection of its own.
func greets(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute)) // a test that fails ends
	fmt.Fprintln(conn, "hello")
	_, err = bufio.NewReader(conn).ReadString('\n')
	return err
}
