package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"

	"github.com/freehold-dev/freehold/controllers/runspec"
	"github.com/freehold-dev/freehold/controllers/workload"
)

const (
	// firstPort and ports are the range of local ports, below those that systems give to outgoing connections.
	firstPort, ports = 20000, 10000
	// mostCarried is how many connections are carried at once.
	mostCarried = 128
	// podPatience is how long a connection waits for a ready pod, and podPause how often it is looked.
	podPatience = 15 * time.Second
	podPause    = 500 * time.Millisecond
)

// port is the local one, the same each time, so that what a client is told stays true.
func (r *reached) port() int {
	sum := fnv.New32a()
	fmt.Fprintf(sum, "%s/%s/%s", r.object.GetKind(), r.object.GetNamespace(), r.object.GetName())
	return firstPort + int(sum.Sum32()%ports)
}

// forward carries connections at the local port to a ready pod of the proxy, until the context ends.
func (c *cli) forward(ctx context.Context, r *reached) error {
	config, client, err := c.clientset()
	if err != nil {
		return err
	}
	key, err := keyOfChildren(r.object)
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", r.port())
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("the port of this server is taken, perhaps by another connect --forward: end what listens at "+
			"%s: %w", address, err)
	}
	fmt.Fprintf(c.ErrOut, "Carrying %s to the proxy of %s. Ctrl+C ends it.\n", address, title(r.object))
	pods := client.CoreV1().Pods(r.object.GetNamespace())
	f := &forwarder{
		told: c.ErrOut,
		pods: func(ctx context.Context) ([]corev1.Pod, error) {
			found, err := pods.List(ctx, metav1.ListOptions{
				LabelSelector: labels.FormatLabels(workload.Selector(key, workload.ComponentProxy)),
			})
			if err != nil {
				return nil, err
			}
			return found.Items, nil
		},
		open: func(pod string) (*tunnel, error) {
			return openTunnel(config, client, r.object.GetNamespace(), pod, int(runspec.ProxyPort(r.Spec.Proxy)))
		},
	}
	return f.serve(ctx, listener)
}

// forwarder carries connections to a ready pod: new ones to the same as long as it is ready.
type forwarder struct {
	told io.Writer
	pods func(context.Context) ([]corev1.Pod, error)
	open func(pod string) (*tunnel, error)

	mu  sync.Mutex
	now *tunnel
}

// tunnel leads to one pod.
type tunnel struct {
	pod     string
	address string // of this machine
	ended   <-chan struct{}
	end     func()
	users   sync.WaitGroup
}

// serve ends with the context, and ends every connection then.
func (f *forwarder) serve(ctx context.Context, listener net.Listener) error {
	stop := context.AfterFunc(ctx, func() { listener.Close() }) //nolint:errcheck // Accept tells
	defer stop()
	room := make(chan struct{}, mostCarried)
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.now != nil {
				f.now.end()
			}
			return nil
		case err != nil:
			return err
		}
		room <- struct{}{}
		go func() {
			defer func() { <-room }()
			defer conn.Close() //nolint:errcheck // it is over
			if err := f.carry(ctx, conn); err != nil && ctx.Err() == nil {
				fmt.Fprintln(f.told, safe(err.Error()))
			}
		}()
	}
}

func (f *forwarder) carry(ctx context.Context, conn net.Conn) error {
	to, err := f.tunnel(ctx)
	if err != nil {
		return err
	}
	defer to.users.Done()
	pod, err := new(net.Dialer).DialContext(ctx, "tcp", to.address)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // the copies tell
	defer stop()
	splice(conn, pod)
	return nil
}

// splice carries bytes both ways until both sides have ended. An error is the end of a side.
//
//nolint:errcheck // see above
func splice(client, pod net.Conn) {
	defer pod.Close()
	back := make(chan struct{})
	go func() {
		defer close(back)
		io.Copy(client, pod)
		client.Close()
	}()
	io.Copy(pod, client)
	if half, ok := pod.(*net.TCPConn); ok {
		half.CloseWrite() // the answer may still come
	}
	<-back
}

// tunnel is one to a ready pod, and has one user more.
func (f *forwarder) tunnel(ctx context.Context) (*tunnel, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, podPatience)
	defer cancel()
	for {
		err := f.follow(ctx)
		if err == nil {
			f.now.users.Add(1)
			return f.now, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(podPause):
		}
	}
}

var errNoPod = errors.New("no pod of the proxy is ready: see kubectl freehold status")

// follow has now lead to a ready pod. A tunnel that is left ends with its last connection.
func (f *forwarder) follow(ctx context.Context) error {
	pods, err := f.pods(ctx)
	if err != nil {
		if f.now != nil && f.now.stands() { // the API server is away, and the pod perhaps not
			return nil
		}
		return err
	}
	to := ""
	for _, pod := range pods {
		if !takesCalls(&pod) {
			continue
		}
		if to = cmp.Or(to, pod.Name); f.now != nil && f.now.stands() && pod.Name == f.now.pod {
			return nil
		}
	}
	if to == "" {
		return errNoPod
	}
	next, err := f.open(to)
	if err != nil {
		return fmt.Errorf("forwarding to pod %s: %w", to, err)
	}
	if left := f.now; left != nil {
		go func() {
			left.users.Wait()
			left.end()
		}()
	}
	f.now = next
	return nil
}

func takesCalls(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (t *tunnel) stands() bool {
	select {
	case <-t.ended:
		return false
	default:
		return true
	}
}

// openTunnel has the API server forward a port of this machine, any that is free, to one of a pod.
func openTunnel(config *rest.Config, client kubernetes.Interface, namespace, pod string, port int) (*tunnel, error) {
	url := client.CoreV1().RESTClient().Get().Resource("pods").Namespace(namespace).Name(pod).
		SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialer(url, config)
	if err != nil {
		return nil, err
	}
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, stop,
		ready, io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	failed := make(chan error, 1)
	go func() {
		defer close(ended)
		failed <- forwarder.ForwardPorts()
	}()
	select {
	case <-ready:
	case err := <-failed:
		return nil, cmp.Or(err, portforward.ErrLostConnectionToPod)
	}
	found, err := forwarder.GetPorts()
	if err != nil {
		close(stop)
		return nil, err
	}
	return &tunnel{
		pod: pod, address: fmt.Sprintf("127.0.0.1:%d", found[0].Local), ended: ended,
		end: sync.OnceFunc(func() { close(stop) }),
	}, nil
}
