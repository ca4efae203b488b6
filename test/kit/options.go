package kit

// Option changes how a control plane is started.
type Option func(*settings)

type settings struct {
	controllerQPS  int
	kubeletWorkers int
	fairness       bool
	alone          bool
	audited        bool
	typeChecking   bool
	undefined      bool
}

func defaults() settings {
	// At kube-controller-manager's default of 20 requests a second, collecting
	// the children of 100 servers takes a quarter of a minute.
	return settings{controllerQPS: 2000, kubeletWorkers: 4}
}

// ControllerQPS is how many requests a second kube-controller-manager may send; twice as many at once.
func ControllerQPS(qps int) Option { return func(s *settings) { s.controllerQPS = qps } }

// KubeletWorkers is how many pods are looked after at once.
func KubeletWorkers(n int) Option { return func(s *settings) { s.kubeletWorkers = n } }

// PriorityAndFairness lets the API server queue requests as in a real cluster
// (https://kubernetes.io/docs/concepts/cluster-administration/flow-control/).
func PriorityAndFairness() Option { return func(s *settings) { s.fairness = true } }

// TypeChecking has kube-controller-manager check the types of policies
// (https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/#type-checking),
// which costs it seconds of CPU for those of Freehold.
func TypeChecking() Option { return func(s *settings) { s.typeChecking = true } }

// Alone leaves kube-controller-manager and the kubelet out: objects stay as they are written, and the API server
// answers nobody but those who ask. The binaries that setup-envtest installs are enough for it.
func Alone() Option { return func(s *settings) { s.alone = true } }

// Audited has the API server note in Plane.AuditLog who asked for what
// (https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/), as the cluster of the demo does.
func Audited() Option { return func(s *settings) { s.audited = true } }

// WithoutDefinitions leaves Freehold's CRDs out, for a test of what installs them.
func WithoutDefinitions() Option { return func(s *settings) { s.undefined = true } }
