package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

const (
	systemNamespace = "freehold-system"
	runnerImage     = "freehold.dev/runner:test"
)

// operator is Freehold's operator in this process: its real manager, with the
// identity and the rights that the chart gives it, on the namespace of one
// story.
type operator struct {
	stage    *kit.Stage
	requests *kit.Requests
	// wire may change what is sent.
	wire func(*rest.Config)
	stop func()
}

// operate starts an operator for the stage's namespace, and for more.
func operate(s *kit.Stage, more ...string) *operator {
	GinkgoHelper()
	o := &operator{stage: s, requests: &kit.Requests{}}
	o.start(controllers.Options{}, more...)
	DeferCleanup(func() { o.stop() })
	return o
}

// start starts the process that stop stopped. What it sends is recorded in the
// same record.
func (o *operator) start(options controllers.Options, more ...string) {
	GinkgoHelper()
	if options.Workload.RunnerImage == "" {
		options.Workload.RunnerImage = runnerImage
	}
	options.SkipNameValidation = true
	cache, err := controllers.CacheOptions(append(more, o.stage.Namespace))
	Expect(err).NotTo(HaveOccurred())
	config := o.requests.Wrap(o.stage.AsServiceAccount(systemNamespace, ownership.IdentityOperator))
	config.UserAgent = "freehold-operator"
	if o.wire != nil {
		o.wire(config)
	}
	scheme, err := controllers.NewScheme()
	Expect(err).NotTo(HaveOccurred())
	mgr, err := ctrl.NewManager(config, manager.Options{
		Scheme: scheme, Cache: cache,
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Client: client.Options{Cache: &client.CacheOptions{}},
	})
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	Expect(controllers.Register(ctx, mgr, options)).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	o.stop = func() {
		GinkgoHelper()
		cancel()
		Expect(<-ended).To(Succeed(), "the operator ended with an error")
		o.stop = func() {}
	}
	Expect(mgr.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
}

func (o *operator) restart() {
	GinkgoHelper()
	o.stop()
	o.start(controllers.Options{})
}

// writes are the operator's since mark that reached the API server.
func (o *operator) writes(since kit.Mark) kit.Log { return o.requests.Since(since).Writes() }

// install does what the chart does for the operator: its identity, its role
// and the policies.
func install(ctx context.Context, plane *kit.Plane) {
	GinkgoHelper()
	root, err := kit.Root()
	Expect(err).NotTo(HaveOccurred())
	name := ownership.IdentityOperator
	role := chartRole(root)
	role.Name = name
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: systemNamespace}},
		role,
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: systemNamespace}},
		},
	} {
		Expect(plane.Client.Create(ctx, object)).To(Succeed())
	}
	Expect(plane.ApplyDir(ctx, filepath.Join(root, "config", "policy"))).To(Succeed())
	awaitPolicy(ctx, plane)
}

// awaitPolicy waits until the API server holds to the policies, which it starts
// to do some time after it took them, and says nowhere.
func awaitPolicy(ctx context.Context, plane *kit.Plane) {
	GinkgoHelper()
	numbered := func(generation string) error {
		object := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(workloadYAML("StatefulSet", "i", "")), &object.Object)).To(Succeed())
		object.SetNamespace(systemNamespace)
		object.SetLabels(map[string]string{workload.LabelManagedBy: workload.ManagedBy})
		object.SetAnnotations(map[string]string{workload.AnnotationGeneration: generation})
		return plane.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("kit"))
	}
	Eventually(func(g Gomega) {
		g.Expect(numbered("2")).To(Succeed())
		g.Expect(numbered("1")).NotTo(Succeed())
	}, kit.Patience, "50ms").Should(Succeed())
}

// chartRole is the ClusterRole of the chart. Its rules hold no template marks,
// so it can be read without Helm.
func chartRole(root string) *rbacv1.ClusterRole {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, "config", "chart", "templates", "rbac.yaml"))
	Expect(err).NotTo(HaveOccurred())
	_, rest, found := strings.Cut(string(text), "\nrules:\n")
	Expect(found).To(BeTrue(), "the chart's rbac.yaml holds no rules")
	rules, _, _ := strings.Cut(rest, "{{")
	role := &rbacv1.ClusterRole{}
	Expect(yaml.UnmarshalStrict([]byte("rules:\n"+rules), role)).To(Succeed())
	Expect(role.Rules).NotTo(BeEmpty())
	return role
}
