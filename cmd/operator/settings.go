package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers"
)

// settings are the operator's flags.
type settings struct {
	controllers    controllers.Options
	namespaces     []string
	leaderElect    bool
	leaseNamespace string
	probeAddress   string
	metricsAddress string
	qps            float64
	burst          int
	logLevel       slog.Level
}

// parse reads the flags. It returns flag.ErrHelp if help was asked for, and an
// error that says what to write for a flag that is wrong.
func parse(args []string, usage io.Writer) (settings, error) {
	s := settings{}
	var namespaces, pullPolicy, pullSecrets string
	flags := flag.NewFlagSet("freehold-operator", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&s.controllers.Workload.RunnerImage, "runner-image", "", "image of the runner in every proxy pod (required)")
	flags.StringVar(&pullPolicy, "runner-image-pull-policy", "", "pull policy of the runner's image: Always, IfNotPresent or Never; the cluster's default if empty")
	flags.StringVar(&pullSecrets, "runner-image-pull-secrets", "", "names of Secrets in the servers' namespaces with credentials of the runner's image, separated by commas")
	flags.IntVar(&s.controllers.Concurrency, "concurrency", controllers.DefaultConcurrency, "how many servers are reconciled at once")
	flags.IntVar(&s.controllers.ConfigRolloutShare, "config-rollout-share", controllers.DefaultConfigRolloutShare,
		"percent of the servers that refer to a changed configuration which take it at a time, at least one; 100 is all at once")
	flags.StringVar(&namespaces, "namespaces", "", "namespaces to watch, separated by commas; all if empty")
	flags.BoolVar(&s.leaderElect, "leader-elect", false, "let one of several operators work at a time")
	flags.StringVar(&s.leaseNamespace, "lease-namespace", os.Getenv("POD_NAMESPACE"), "namespace of the leader's Lease")
	flags.StringVar(&s.controllers.IdentityNamespace, "identity-namespace", "",
		"namespace of the ServiceAccounts that the controllers write as, "+strings.Join(contract.Controllers(), " and ")+"; the operator writes as itself if empty")
	flags.StringVar(&s.probeAddress, "probe-address", ":8081", "address of /healthz and /readyz")
	flags.StringVar(&s.metricsAddress, "metrics-address", "0", "address of /metrics; 0 for none")
	flags.Float64Var(&s.qps, "qps", controllers.DefaultQPS, "requests a second to the API server, in the long run")
	flags.IntVar(&s.burst, "burst", controllers.DefaultBurst, "requests to the API server at once")
	flags.TextVar(&s.logLevel, "log-level", slog.LevelInfo, "least level that is logged: debug, info, warn or error")
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	s.controllers.Workload.RunnerPullPolicy = corev1.PullPolicy(pullPolicy)
	s.controllers.Workload.RunnerPullSecrets = list(pullSecrets)
	s.namespaces = list(namespaces)
	return s, s.check()
}

// list is what stands between commas.
func list(text string) []string {
	var found []string
	for _, n := range strings.Split(text, ",") {
		if n = strings.TrimSpace(n); n != "" {
			found = append(found, n)
		}
	}
	return found
}

func (s settings) check() error {
	switch s.controllers.Workload.RunnerPullPolicy {
	case "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		return fmt.Errorf("--runner-image-pull-policy is %q: write Always, IfNotPresent or Never", s.controllers.Workload.RunnerPullPolicy)
	}
	switch {
	case s.controllers.Workload.RunnerImage == "":
		return fmt.Errorf("--runner-image is missing: write the image of the runner, for example freehold.dev/runner:1.0.0")
	case s.controllers.ConfigRolloutShare < 1 || s.controllers.ConfigRolloutShare > 100:
		return fmt.Errorf("--config-rollout-share is %d: write how many percent of the servers take a changed configuration at a time, 1 to 100", s.controllers.ConfigRolloutShare)
	case s.qps > 0 && s.burst < 1:
		return fmt.Errorf("--burst is %d: write how many requests may be sent at once, at least 1", s.burst)
	case s.leaderElect && s.leaseNamespace == "":
		return fmt.Errorf("--lease-namespace is missing: write the namespace of the leader's Lease, or set POD_NAMESPACE")
	}
	return nil
}

// limit bounds what the whole process sends with clients that are made from
// config: each kind, and each identity that is written as, has one of its own.
func (s settings) limit(config *rest.Config) {
	config.QPS, config.Burst = float32(s.qps), s.burst
	if s.qps > 0 {
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, config.Burst)
	}
}

// renewDeadline is controller-runtime's default: half of it is how long one
// request of the leader election may take.
const renewDeadline = 10 * time.Second

// lock is client-go's lock on the leader's Lease. The one that the manager makes
// records Events, for which the operator has no right: the Lease says who leads.
// A renewal does not wait for the rate limiter of the controllers.
func (s settings) lock(config *rest.Config) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming this process: %w", err)
	}
	unlimited := rest.CopyConfig(config)
	unlimited.RateLimiter = nil
	return resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, s.leaseNamespace, contract.LeaseName,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, unlimited, renewDeadline)
}

// handler logs as JSON, for whatever collects the log of a pod.
func (s settings) handler(w io.Writer) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: s.logLevel})
}
