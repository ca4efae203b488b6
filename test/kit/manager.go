package kit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// enabledControllers are those of a cluster that a server's objects meet. Pod collection, node lifecycle and volumes
// are left out: they would act on the node that is not there.
const enabledControllers = "clusterrole-aggregation-controller,deployment-controller,disruption-controller," +
	"endpointslice-controller,garbage-collector-controller,namespace-controller,replicaset-controller," +
	"root-ca-certificate-publisher-controller,service-cidr-controller,serviceaccount-controller,statefulset-controller"

// typeChecking is the controller that TypeChecking adds.
const typeChecking = ",validatingadmissionpolicy-status-controller"

// controllerManager is a running kube-controller-manager.
type controllerManager struct {
	command *exec.Cmd
	dir     string
	log     *tail
	ended   chan struct{}
}

func startControllerManager(assets, certs string, s settings, kubeconfig, ca []byte) (*controllerManager, error) {
	dir, err := os.MkdirTemp("", "freehold-kit-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for kube-controller-manager: %w", err)
	}
	m := &controllerManager{dir: dir, log: &tail{}, ended: make(chan struct{})}
	config, root := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "ca.crt")
	if err := errors.Join(os.WriteFile(config, kubeconfig, 0o600), os.WriteFile(root, ca, 0o600)); err != nil {
		return m, fmt.Errorf("writing the configuration of kube-controller-manager: %w", err)
	}
	run := enabledControllers
	if s.typeChecking {
		run += typeChecking
	}
	m.command = exec.Command(filepath.Join(assets, "kube-controller-manager"),
		"--kubeconfig="+config,
		"--controllers="+run,
		"--root-ca-file="+root,
		"--service-account-private-key-file="+filepath.Join(certs, "sa-signer.key"),
		"--leader-elect=false",
		// As clusters do: policies know the garbage collector by its name.
		"--use-service-account-credentials",
		// Nothing needs to ask it anything.
		"--secure-port=0",
		fmt.Sprintf("--kube-api-qps=%d", s.controllerQPS), fmt.Sprintf("--kube-api-burst=%d", 2*s.controllerQPS),
		"--concurrent-gc-syncs=4",
	)
	m.command.Stdout, m.command.Stderr = m.log, m.log
	if err := m.command.Start(); err != nil {
		return m, fmt.Errorf("starting kube-controller-manager: %w", err)
	}
	go func() {
		defer close(m.ended)
		_ = m.command.Wait() // how it ended is in its log
	}()
	return m, nil
}

func (m *controllerManager) output() string {
	return "kube-controller-manager said last:\n" + m.log.String()
}

func (m *controllerManager) stop() error {
	var errs []error
	if m.command != nil && m.command.Process != nil {
		if err := m.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, fmt.Errorf("stopping kube-controller-manager: %w", err))
		}
		select {
		case <-m.ended:
		case <-time.After(10 * time.Second):
			errs = append(errs, m.command.Process.Kill())
			<-m.ended
		}
	}
	return errors.Join(append(errs, os.RemoveAll(m.dir))...)
}

// awaitServiceAccount waits until the namespace has its default ServiceAccount, without which no pod is admitted.
func (p *Plane) awaitServiceAccount(ctx context.Context, namespace string) error {
	watcher, err := p.Client.Watch(ctx, &corev1.ServiceAccountList{}, client.InNamespace(namespace),
		client.MatchingFields{metav1.ObjectNameField: "default"})
	if err != nil {
		return fmt.Errorf("watching ServiceAccounts: %w", err)
	}
	defer watcher.Stop()
	for {
		select {
		case event, open := <-watcher.ResultChan():
			if !open {
				return errors.New("the watch of ServiceAccounts ended")
			}
			if event.Type == watch.Added {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tail keeps the last part of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

const tailSize = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept.Len() > 2*tailSize {
		t.kept.Next(t.kept.Len() - tailSize)
	}
	return t.kept.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept.String()
}
