package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/cmd/internal/logs"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
)

type settings struct {
	controllers    controllers.Options
	leaderElect    bool
	leaseNamespace string
	probeAddress   string
	metricsAddress string
	metricsSecure  bool
	metricsCertDir string
	profiling      bool
	lease          lease
	qps            float64
	burst          int
	logLevel       slog.Level
	logFormat      logs.Format
}

// lease are the times of the leader election
// (https://pkg.go.dev/k8s.io/client-go/tools/leaderelection#LeaderElectionConfig).
type lease struct{ duration, renewDeadline, retryPeriod time.Duration }

// parse reads the flags. It returns flag.ErrHelp for help, and an error that says what to write for an invalid flag.
func parse(args []string, usage io.Writer) (settings, error) {
	s := settings{}
	var namespaces, pullPolicy, pullSecrets, proxyResources, proxyTemplate, network, objects string
	var proxyReplicas int
	flags := flag.NewFlagSet("freehold-operator", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&s.controllers.Workload.RunnerImage, "runner-image", "",
		"image of the runner in every proxy pod (required)")
	flags.StringVar(&pullPolicy, "runner-image-pull-policy", "",
		"pull policy of the runner's image: Always, IfNotPresent or Never; the cluster's default if empty")
	flags.StringVar(&pullSecrets, "runner-image-pull-secrets", "",
		"names of Secrets in the servers' namespaces with credentials of the runner's image, separated by commas")
	flags.StringVar(&proxyResources, "proxy-resources", "",
		`resources of the proxies whose spec.proxy.resources is unset, as JSON, for example {"requests":{"cpu":"50m"},"limits":{"memory":"512Mi"}}`)
	flags.IntVar(&proxyReplicas, "proxy-replicas", 1, "number of pods of the proxies whose spec.proxy.replicas is unset")
	flags.StringVar(&proxyTemplate, "proxy-pod-template", "",
		`pod template of all proxies, which spec.proxy.podTemplate is laid over, as JSON, for example {"spec":{"priorityClassName":"mcp"}}`)
	flags.BoolVar(&s.controllers.Workload.RemoteContainers, "remote-proxy-containers", false,
		"let spec.proxy.podTemplate of MCPRemoteProxies add containers, so that who may write one may run any image")
	flags.StringVar(&network, "network-defaults", "",
		`what spec.network of servers says that leave it out, as JSON, for example {"backendIngress":"ProxyOnly","egress":[]}`)
	flags.StringVar(&objects, "object-defaults", "",
		`labels and annotations of all objects that are made for servers, and keys of labels that these have as their servers do, as JSON, for example {"labels":{"team":"platform"},"inheritLabels":["team"]}`)
	flags.IntVar(&s.controllers.Concurrency, "concurrency", controllers.DefaultConcurrency,
		"how many objects of each kind are reconciled at once; of one namespace three quarters of them at most")
	flags.IntVar(&s.controllers.ConfigRolloutShare, "config-rollout-share", controllers.DefaultConfigRolloutShare,
		"percent of the servers that refer to a changed configuration which take it at a time, at least one; 100 is all at "+
			"once")
	flags.StringVar(&namespaces, "namespaces", "", "namespaces to watch, separated by commas; all if empty")
	s.electionFlags(flags)
	flags.StringVar(&s.controllers.IdentityNamespace, "identity-namespace", "",
		"namespace of the ServiceAccounts that the controllers write as, "+strings.Join(contract.Controllers(), " and ")+
			"; the operator writes as itself if empty")
	flags.StringVar(&s.probeAddress, "probe-address", ":8081", "address of /healthz and /readyz")
	flags.StringVar(&s.metricsAddress, "metrics-address", "0", "address of /metrics; 0 for none")
	flags.BoolVar(&s.metricsSecure, "metrics-secure", false,
		"serve metrics over TLS, only to callers whose token the API server knows and lets get the path /metrics")
	flags.StringVar(&s.metricsCertDir, "metrics-cert-dir", "",
		"folder with tls.crt and tls.key for --metrics-secure, read again when they change; a certificate that the "+
			"operator signs itself if empty")
	flags.BoolVar(&s.profiling, "profiling", false,
		"serve profiles of Go at "+profilingAddress+"/debug/pprof, for kubectl port-forward")
	flags.Float64Var(&s.qps, "qps", controllers.DefaultQPS,
		"requests a second to the API server, in the long run; -1 for any number")
	flags.IntVar(&s.burst, "burst", controllers.DefaultBurst, "requests to the API server at once")
	flags.TextVar(&s.logLevel, "log-level", slog.LevelInfo, "least level that is logged: debug, info, warn or error")
	flags.TextVar(&s.logFormat, "log-format", logs.JSON, "format of the log: json or text")
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	s.controllers.Workload.RunnerPullPolicy = corev1.PullPolicy(pullPolicy)
	s.controllers.Workload.RunnerPullSecrets = list(pullSecrets)
	s.controllers.Namespaces = list(namespaces)
	if err := errors.Join(s.proxyResources(proxyResources), s.proxyReplicas(proxyReplicas), s.proxyTemplate(proxyTemplate),
		s.networkDefaults(network), s.objectDefaults(objects)); err != nil {
		return settings{}, err
	}
	return s, s.check()
}

func (s *settings) electionFlags(flags *flag.FlagSet) {
	flags.BoolVar(&s.leaderElect, "leader-elect", false, "let one of several operators work at a time")
	flags.StringVar(&s.leaseNamespace, "lease-namespace", os.Getenv("POD_NAMESPACE"), "namespace of the leader's Lease")
	flags.DurationVar(&s.lease.duration, "lease-duration", 15*time.Second,
		"how long others wait before they take the Lease of a leader that no longer renews it")
	flags.DurationVar(&s.lease.renewDeadline, "renew-deadline", 10*time.Second,
		"how long the leader tries to renew the Lease before it gives up and ends")
	flags.DurationVar(&s.lease.retryPeriod, "retry-period", 2*time.Second, "how often the Lease is renewed, or asked for")
}

func (s *settings) proxyResources(text string) error {
	if text == "" {
		return nil
	}
	s.controllers.Workload.ProxyResources = &v1alpha1.Resources{}
	if err := yaml.UnmarshalStrict([]byte(text), s.controllers.Workload.ProxyResources); err != nil {
		return fmt.Errorf(`--proxy-resources is not JSON of resources: %w: write for example {"limits":{"memory":"512Mi"}}`,
			err)
	}
	as := &v1alpha1.ProxySpec{Resources: s.controllers.Workload.ProxyResources}
	if err := podtemplate.AsError(podtemplate.Check("proxyDefaults", as)); err != nil {
		return fmt.Errorf("--proxy-resources: %w", err)
	}
	return nil
}

// proxyReplicas reads its flag. A default of 0 would stop every server that states none.
func (s *settings) proxyReplicas(n int) error {
	if n < 1 || n > mostProxies {
		return fmt.Errorf("--proxy-replicas is %d: write how many pods a proxy has, 1 to %d", n, mostProxies)
	}
	s.controllers.Workload.ProxyReplicas = int32(n)
	return nil
}

// mostProxies is the maximum of spec.proxy.replicas.
const mostProxies = 100

func (s *settings) proxyTemplate(text string) error {
	if text == "" {
		return nil
	}
	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return fmt.Errorf(`--proxy-pod-template is not JSON: %w: write for example {"spec":{"priorityClassName":"mcp"}}`, err)
	}
	s.controllers.Workload.ProxyTemplate = raw
	if err := podtemplate.AsError(podtemplate.CheckRelease(s.controllers.Workload)); err != nil {
		return fmt.Errorf("--proxy-pod-template: %w", err)
	}
	return nil
}

// networkDefaults reads its flag. The chart's schema has the rules of spec.network.
func (s *settings) networkDefaults(text string) error {
	if text == "" {
		return nil
	}
	s.controllers.Workload.Network = &v1alpha1.NetworkSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), s.controllers.Workload.Network); err != nil {
		return fmt.Errorf(`--network-defaults is not JSON of spec.network: %w: write for example {"egress":[]}`, err)
	}
	switch ingress := s.controllers.Workload.Network.BackendIngress; ingress {
	case "", v1alpha1.BackendIngressAny, v1alpha1.BackendIngressProxyOnly:
	default:
		return fmt.Errorf("--network-defaults has backendIngress %q: write ProxyOnly or Any", ingress)
	}
	if err := podtemplate.AsError(workload.CheckNetwork("networkDefaults", s.controllers.Workload.Network)); err != nil {
		return fmt.Errorf("--network-defaults: %w", err)
	}
	return nil
}

func (s *settings) objectDefaults(text string) error {
	if text == "" {
		return nil
	}
	if err := yaml.UnmarshalStrict([]byte(text), &s.controllers.Workload.Objects); err != nil {
		return fmt.Errorf(
			`--object-defaults is not JSON of labels, annotations and inheritLabels: %w: write for example {"labels":{"team":"platform"}}`, err)
	}
	if err := podtemplate.AsError(podtemplate.CheckObjects(s.controllers.Workload.Objects)); err != nil {
		return fmt.Errorf("--object-defaults: %w", err)
	}
	return nil
}

// list splits at commas, and removes duplicates.
func list(text string) []string {
	var found []string
	for _, n := range strings.Split(text, ",") {
		if n = strings.TrimSpace(n); n != "" && !slices.Contains(found, n) {
			found = append(found, n)
		}
	}
	return found
}

func (s settings) check() error {
	switch s.controllers.Workload.RunnerPullPolicy {
	case "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		return fmt.Errorf("--runner-image-pull-policy is %q: write Always, IfNotPresent or Never",
			s.controllers.Workload.RunnerPullPolicy)
	}
	switch {
	case s.controllers.Workload.RunnerImage == "":
		return fmt.Errorf("--runner-image is missing: write the image of the runner, for example freehold.dev/runner:1.0.0")
	case s.controllers.ConfigRolloutShare < 1 || s.controllers.ConfigRolloutShare > 100:
		return fmt.Errorf("--config-rollout-share is %d: write how many percent of the servers take a changed "+
			"configuration at a time, 1 to 100", s.controllers.ConfigRolloutShare)
	case s.controllers.Concurrency < 1:
		return fmt.Errorf("--concurrency is %d: write how many objects of each kind are reconciled at once, at least 1",
			s.controllers.Concurrency)
	case s.qps == 0:
		return fmt.Errorf("--qps is 0: write how many requests a second may be sent, for example %d, or -1 for any number",
			controllers.DefaultQPS)
	case s.qps > 0 && s.burst < 1:
		return fmt.Errorf("--burst is %d: write how many requests may be sent at once, at least 1", s.burst)
	case s.metricsCertDir != "" && !s.metricsSecure:
		return fmt.Errorf("--metrics-cert-dir needs --metrics-secure: without it metrics are served without TLS")
	case s.leaderElect && s.lease.check() != nil:
		return s.lease.check()
	case s.leaderElect && s.leaseNamespace == "":
		return fmt.Errorf("--lease-namespace is missing: write the namespace of the leader's Lease, or set POD_NAMESPACE")
	}
	return nil
}

// check applies the rules of client-go's leader election, whose own message names no flag.
func (l lease) check() error {
	switch {
	case l.retryPeriod <= 0:
		return fmt.Errorf("--retry-period is %s: write a time above 0, for example 2s", l.retryPeriod)
	case float64(l.renewDeadline) <= leaderelection.JitterFactor*float64(l.retryPeriod):
		return fmt.Errorf("--renew-deadline is %s: write more than %g times --retry-period, which is %s", l.renewDeadline,
			leaderelection.JitterFactor, l.retryPeriod)
	case l.duration <= l.renewDeadline:
		return fmt.Errorf("--lease-duration is %s: write more than --renew-deadline, which is %s", l.duration,
			l.renewDeadline)
	}
	return nil
}

// limit bounds the requests of the whole process: the clients of each kind and identity share one limiter.
func (s settings) limit(config *rest.Config) {
	config.QPS, config.Burst = float32(s.qps), s.burst
	if s.qps > 0 {
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, config.Burst)
	}
}

// lock is client-go's lock on the leader's Lease. The manager's own lock records Events, which the operator has no
// right to do. A renewal does not wait for the controllers' rate limiter, and takes at most half of the deadline.
func (s settings) lock(config *rest.Config) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming this process: %w", err)
	}
	unlimited := rest.CopyConfig(config)
	unlimited.RateLimiter = nil
	return resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, s.leaseNamespace, contract.LeaseName,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, unlimited, s.lease.renewDeadline)
}
