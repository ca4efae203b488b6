package kit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// processTimeout bounds the start and the stop of each process. It is generous
// because a busy two-core machine starts a kube-apiserver in half a minute.
const processTimeout = 2 * time.Minute

// Plane is a running control plane.
type Plane struct {
	// Config is the administrator's, without client-side rate limits.
	Config *rest.Config
	// Client is the administrator's and reads from the API server, not from a cache.
	Client client.WithWatch
	// Scheme knows the built-in kinds and Freehold's.
	Scheme *runtime.Scheme
	// Kubelet decides how pods fare.
	Kubelet *Kubelet
	// APIServer and Etcd may be killed and started again.
	APIServer, Etcd *Process
	// AuditLog is where the API server notes who asked for what, if Audited.
	AuditLog string

	operator    *rest.Config
	alone       bool
	dir         string
	environment *envtest.Environment
	manager     *controllerManager
}

// Scheme returns a scheme with the built-in kinds and Freehold's.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// Start starts the control plane and waits until pods can be created in its default namespace, unless it is Alone.
// Whoever starts it calls Stop, also after an error.
//
// The binaries are taken from the directory in KUBEBUILDER_ASSETS, or from
// bin/k8s/<version> of the repository; the error says how to build them.
func Start(ctx context.Context, options ...Option) (*Plane, error) {
	s := defaults()
	for _, change := range options {
		change(&s)
	}
	root, err := Root()
	if err != nil {
		return nil, err
	}
	assets, err := assets(root, s.alone)
	if err != nil {
		return nil, err
	}
	p := &Plane{Scheme: Scheme(), alone: s.alone}
	p.environment = &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		CRDDirectoryPaths:        []string{filepath.Join(root, "config", "crd")},
		ErrorIfCRDPathMissing:    true,
		Scheme:                   p.Scheme,
		ControlPlaneStartTimeout: processTimeout,
		ControlPlaneStopTimeout:  processTimeout,
	}
	if s.undefined {
		p.environment.CRDDirectoryPaths = nil
	}
	if err := p.noteProcesses(assets); err != nil {
		return p, err
	}
	flags := p.environment.ControlPlane.GetAPIServer().Configure()
	// Wider than envtest's /24, which 250 Services exhaust.
	flags.Set("service-cluster-ip-range", "10.96.0.0/16")
	// As in a real cluster: a pod needs its ServiceAccount, and whoever blocks an owner's deletion needs the right to.
	flags.Disable("disable-admission-plugins")
	flags.Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
	flags.Set("enable-priority-and-fairness", strconv.FormatBool(s.fairness))
	if s.audited {
		p.AuditLog = filepath.Join(p.dir, "audit.log")
		flags.Set("audit-policy-file", filepath.Join(root, "hack", "cluster", "config", "audit.yaml"))
		flags.Set("audit-log-path", p.AuditLog)
	}
	if p.Config, err = p.environment.Start(); err != nil {
		return p, fmt.Errorf("starting kube-apiserver and etcd from %s: %w", assets, err)
	}
	p.Config.QPS = -1
	p.APIServer.health, p.Etcd.health = strings.TrimSuffix(p.Config.Host, "/")+"/readyz", p.EtcdURL("/health")
	if p.Client, err = client.NewWithWatch(p.Config, client.Options{Scheme: p.Scheme}); err != nil {
		return p, fmt.Errorf("building a client: %w", err)
	}
	if s.alone {
		return p, nil
	}
	return p, p.startControllers(ctx, assets, s)
}

// noteProcesses lets envtest start what can be hurt.
func (p *Plane) noteProcesses(assets string) error {
	var err error
	if p.dir, err = os.MkdirTemp("", "freehold-plane-"); err != nil {
		return fmt.Errorf("making a directory for the control plane: %w", err)
	}
	if p.APIServer, err = noted(p.dir, filepath.Join(assets, "kube-apiserver")); err != nil {
		return err
	}
	if p.Etcd, err = noted(p.dir, filepath.Join(assets, "etcd")); err != nil {
		return err
	}
	p.environment.ControlPlane.GetAPIServer().Path = p.APIServer.script()
	p.environment.ControlPlane.Etcd = &envtest.Etcd{Path: p.Etcd.script()}
	// The default of 2 GB is full with 1,500 objects as large as they may be, each written three times.
	p.environment.ControlPlane.Etcd.Configure().Set("quota-backend-bytes", "8589934592")
	return nil
}

// EtcdURL is the address of a path of etcd, without authentication.
func (p *Plane) EtcdURL(path string) string {
	return p.environment.ControlPlane.Etcd.URL.JoinPath(path).String()
}

func (p *Plane) startControllers(ctx context.Context, assets string, s settings) error {
	certs := p.environment.ControlPlane.GetAPIServer().CertDir
	var err error
	if p.manager, err = startControllerManager(assets, certs, s, p.environment.KubeConfig, p.Config.CAData); err != nil {
		return err
	}
	if p.Kubelet, err = startKubelet(ctx, p.Config, s.kubeletWorkers); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, processTimeout)
	defer cancel()
	if err := p.awaitServiceAccount(ctx, "default"); err != nil {
		return fmt.Errorf("waiting for kube-controller-manager to create the default ServiceAccount: %w\n%s", err,
			p.manager.output())
	}
	return nil
}

// Stop ends every process that Start started.
func (p *Plane) Stop() error {
	if p == nil {
		return nil
	}
	var errs []error
	if p.Kubelet != nil {
		p.Kubelet.stop()
	}
	if p.manager != nil {
		errs = append(errs, p.manager.stop())
	}
	errs = append(errs, p.APIServer.stop())
	if p.environment != nil {
		// Before etcd, without which an API server takes minutes to end.
		errs = append(errs, p.environment.ControlPlane.GetAPIServer().Stop())
	}
	errs = append(errs, p.Etcd.stop())
	if p.environment != nil {
		errs = append(errs, p.environment.Stop(), os.RemoveAll(p.dir))
	}
	return errors.Join(errs...)
}

// As returns the administrator's configuration impersonating a user, so that the API server applies that user's rights.
func (p *Plane) As(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(p.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return config
}

// AsServiceAccount is As for a ServiceAccount.
func (p *Plane) AsServiceAccount(namespace, name string) *rest.Config {
	return p.As("system:serviceaccount:"+namespace+":"+name, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
}

// HTTP returns the administrator's client for requests that are written by hand.
func (p *Plane) HTTP() (*rest.RESTClient, error) {
	config := rest.CopyConfig(p.Config)
	config.GroupVersion = &schema.GroupVersion{}
	config.NegotiatedSerializer = serializer.NewCodecFactory(p.Scheme).WithoutConversion()
	http, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("building an HTTP client: %w", err)
	}
	return http, nil
}

// ApplyDir applies every document of the YAML files of a directory as the administrator.
func (p *Plane) ApplyDir(ctx context.Context, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("reading %s: %d files, %w", dir, len(files), err)
	}
	for _, file := range files {
		if err := p.applyFile(ctx, file, ""); err != nil {
			return err
		}
	}
	return nil
}

// applyFile applies every document of a YAML file as the administrator, but for those of a kind.
func (p *Plane) applyFile(ctx context.Context, file, but string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading manifests: %w", err)
	}
	applied := 0
	for document := range strings.SplitSeq("\n"+string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		if object.Object == nil || object.GetKind() == but {
			continue
		}
		if err := p.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
			client.FieldOwner("kit")); err != nil {
			return fmt.Errorf("applying %s %s of %s: %w", object.GetKind(), object.GetName(), file, err)
		}
		applied++
	}
	if applied == 0 {
		return fmt.Errorf("%s holds no object", file)
	}
	return nil
}
