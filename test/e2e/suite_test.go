// Package e2e tells the stories that need real pods, on the cluster that
// hack/e2e.sh brings up. It runs inside that cluster's network, so that it
// reaches Services and pods as a client in the cluster does. Stories run side by
// side, except those that are Serial: they change or end the operator.
package e2e

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// patience is how long a real cluster on a small, shared machine may take for
// one step.
const patience = 3 * time.Minute

// image is the real MCP server that the cluster holds.
var image = "freehold.dev/everything-server:" + version()

// runnerImage is the proxies'. The same build has a second tag, with "-again".
var runnerImage = "freehold.dev/runner:" + version()

var cluster client.Client

// logs reads what containers said, which is no object.
var logs corev1client.PodsGetter

func version() string {
	if v := os.Getenv("VERSION"); v != "" {
		return v
	}
	return "dev"
}

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(250 * time.Millisecond)
	// Else a step with a context is waited for until the whole run is killed, and what the
	// story changed in the operator stays.
	EnforceDefaultTimeoutsWhenUsingContexts()
	// Paths are from the root, and a process of Ginkgo begins where its program is.
	root, err := kit.Root()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Chdir(root)
	RunSpecs(t, "Freehold on a real cluster")
}

var _ = BeforeSuite(func() {
	config, err := ctrl.GetConfig()
	Expect(err).NotTo(HaveOccurred(), "run this through make e2e")
	config.UserAgent = "e2e"
	config.QPS, config.Burst = 100, 200
	scheme, err := controllers.NewScheme()
	Expect(err).NotTo(HaveOccurred())
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	cluster, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	logs, err = corev1client.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
})

// story is one story's namespace and server.
type story struct {
	namespace string
	name      string
}

// newStory makes a namespace under the "restricted" Pod Security Standard, which
// goes when the story ends. If the story failed it first tells what there was.
func newStory(name string) story {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "e2e-",
		Labels:       map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	Expect(cluster.Create(context.Background(), ns)).To(Succeed())
	s := story{namespace: ns.Name, name: name}
	DeferCleanup(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			s.tell(ctx)
		}
		Expect(client.IgnoreNotFound(cluster.Delete(ctx, ns))).To(Succeed())
	})
	return s
}

// admitAll lifts the Pod Security Standard from the story's namespace.
func (s story) admitAll(ctx context.Context) {
	GinkgoHelper()
	patch := client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`))
	Expect(cluster.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, patch)).To(Succeed())
}

// apply applies a server under a manager that stands for Git.
func (s story) apply(ctx context.Context, spec string) {
	GinkgoHelper()
	s.applySpec(ctx, "git", spec)
}

func (s story) applySpec(ctx context.Context, manager, spec string) {
	GinkgoHelper()
	u := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte(spec), &u.Object)).To(Succeed())
	u.Object = map[string]any{"spec": u.Object}
	u.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("MCPServer"))
	u.SetNamespace(s.namespace)
	u.SetName(s.name)
	Expect(cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager),
		client.ForceOwnership)).To(Succeed())
}

// spec is the server's spec. Another round is other content, and changes
// nothing else.
func spec(round int) string {
	return fmt.Sprintf(`{image: %q, args: ["-http", ":8080"], env: [{name: ROUND, value: "%d"}], proxy: {replicas: 2}}`,
		image, round)
}

// inPlace is a spec of which new content replaces the backend's pods in place.
func inPlace(spec string) string { return spec[:len(spec)-1] + ", rollout: {strategy: Replace}}" }

func (s story) server(ctx context.Context) *v1alpha1.MCPServer {
	GinkgoHelper()
	server := &v1alpha1.MCPServer{}
	Expect(cluster.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: s.name}, server)).To(Succeed())
	return server
}

// ready waits until the server is Ready for its present spec.
func (s story) ready(ctx context.Context) *v1alpha1.MCPServer {
	GinkgoHelper()
	var server *v1alpha1.MCPServer
	Eventually(ctx, func(g Gomega) {
		server = s.server(ctx)
		g.Expect(server.Status.ObservedGeneration).To(Equal(server.Generation))
		c := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady)
		g.Expect(c).NotTo(BeNil())
		g.Expect(c.Status).To(Equal(metav1.ConditionTrue), "%s: %s", c.Reason, c.Message)
	}).Should(Succeed())
	reachable(ctx, server.Status.URL)
	return server
}

// reachable waits until connections to a Service get through. The node learns of an endpoint a moment after the API
// server does, a second where it has just learned of another, and refuses connections until then.
func reachable(ctx context.Context, endpoint string) {
	GinkgoHelper()
	at, err := url.Parse(endpoint)
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func() error {
		conn, err := net.DialTimeout("tcp", at.Host, 2*time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	}).Should(Succeed())
}

func (s story) pods(ctx context.Context, component string) []corev1.Pod {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(cluster.List(ctx, pods, client.InNamespace(s.namespace),
		client.MatchingLabels(workload.Selector(s.name, component)))).To(Succeed())
	return pods.Items
}

func (s story) backend(ctx context.Context) *appsv1.StatefulSet {
	GinkgoHelper()
	set := &appsv1.StatefulSet{}
	Expect(cluster.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: workload.BackendName(s.name)}, set)).
		To(Succeed())
	return set
}

// auditLog is where hack/cluster keeps the API server's.
func auditLog() string {
	dir := os.Getenv("FREEHOLD_CLUSTER_DIR")
	if dir == "" {
		dir = "/var/lib/freehold-cluster"
	}
	return dir + "/logs/audit.log"
}
