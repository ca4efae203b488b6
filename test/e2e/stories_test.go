package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// The demo asserts as it goes.
var _ = It("The demo plays", func(ctx SpecContext) {
	demo := exec.CommandContext(ctx, "hack/demo.sh", "play")
	demo.Stdout, demo.Stderr = GinkgoWriter, GinkgoWriter
	DeferCleanup(func(ctx SpecContext) { // so that no later upgrade rolls its servers
		s := story{"demo", "everything"}
		if CurrentSpecReport().Failed() {
			s.tell(ctx)
		}
		err := cluster.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: s.name}, &v1alpha1.MCPServer{})
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		if err == nil {
			// without its finalizer
			s.applyAs(ctx, "billing", "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: everything}")
		}
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
		Expect(client.IgnoreNotFound(cluster.Delete(ctx, ns))).To(Succeed())
	})
	Expect(demo.Run()).To(Succeed())
}, SpecTimeout(10*time.Minute))

var _ = Describe("A server on a real cluster", func() {
	// What starts beside it would make it come up in more steps.
	It("becomes ready with at most 8 writes to its status, says what it serves, and leaves nothing", Serial,
		func(ctx SpecContext) {
			s := newStory("plain")
			s.apply(ctx, spec(1))
			server := s.ready(ctx)
			Expect(statusWrites(s)).To(BeNumerically("<=", 8))
			Expect(call(ctx, server.Status.URL)).To(Equal("answer"))
			// Asked for when the backend is ready, and answered in its own time.
			Eventually(ctx, func(g Gomega) {
				said := s.server(ctx).Status.Runtime
				g.Expect(said.Tools).To(HaveValue(BeNumerically(">", 5)))
				g.Expect(said.Server).NotTo(BeNil())
			}).Should(Succeed())

			Expect(cluster.Delete(ctx, server)).To(Succeed())
			Eventually(ctx, func() error {
				return cluster.Get(ctx, client.ObjectKeyFromObject(server), server)
			}).Should(MatchError(apierrors.IsNotFound, "is gone"))
			for _, list := range []client.ObjectList{
				&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &appsv1.ReplicaSetList{}, &corev1.ServiceList{},
				&corev1.ConfigMapList{},
				&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &corev1.PodList{},
			} {
				Eventually(ctx, func(g Gomega) {
					g.Expect(cluster.List(ctx, list, client.InNamespace(s.namespace), client.HasLabels{workload.LabelServer})).
						To(Succeed())
					g.Expect(meta.ExtractList(list)).To(BeEmpty(), "%T", list)
				}).Should(Succeed())
			}
		})

	It("ends every call in an answer or a defined error while its image changes", func(ctx SpecContext) {
		s := newStory("called")
		s.apply(ctx, spec(1))
		server := s.ready(ctx)
		calls := callAgain(ctx, server.Status.URL, 4)
		s.apply(ctx, spec(2))
		changed := s.ready(ctx)
		calls.end()
		Expect(changed.Status.Workload.Generation).To(Equal(server.Status.Workload.Generation + 1))
		AddReportEntry(fmt.Sprintf("%d answers, %d defined errors", calls.answers, len(calls.errors)))
		Expect(calls.wrong).To(BeEmpty())
		Expect(calls.answers).To(BeNumerically(">", 0))
	})

	It("keeps the new backend when an old proxy pod starts again, and that pod serves", func(ctx SpecContext) {
		s := newStory("aged")
		s.apply(ctx, inPlace(spec(1)))
		server := s.ready(ctx)
		// Both of the first content; the second starts when that has aged, with the run
		// config that its pod template carries.
		first := s.pods(ctx, workload.ComponentProxy)[0]
		Expect(cluster.Create(ctx, oldPod(first, "aged-before"))).To(Succeed())
		s.apply(ctx, inPlace(spec(2)))
		newer := s.ready(ctx).Status.Workload.Generation
		old := oldPod(first, "aged-after")
		Expect(cluster.Create(ctx, old)).To(Succeed())
		pod := &corev1.Pod{}
		Eventually(ctx, func(g Gomega) {
			g.Expect(cluster.Get(ctx, client.ObjectKeyFromObject(old), pod)).To(Succeed())
			g.Expect(ready(pod)).To(BeTrue())
		}).Should(Succeed())
		Expect(call(ctx, fmt.Sprintf("http://%s:8000/mcp", pod.Status.PodIP))).To(Equal("answer"))

		rev, err := revision.Of(s.backend(ctx).Annotations)
		Expect(err).NotTo(HaveOccurred())
		Expect(rev.Generation).To(Equal(newer))
		Expect(newer).To(BeNumerically(">", server.Status.Workload.Generation))
		Expect(s.server(ctx).Status.Runtime.Generation).To(Equal(newer))
	})

	It("keeps its sessions through whatever changes the proxy alone, and replaces its backend once for what does not",
		func(ctx SpecContext) {
			s := newStory("lasting")
			text := fmt.Sprintf(
				`image: %q, args: ["-http", ":8080", "-stateless=false"], rollout: {strategy: Replace}`, image)
			s.apply(ctx, "{"+text+"}")
			url := s.ready(ctx).Status.URL
			pod, set, session := s.pods(ctx, workload.ComponentBackend)[0].UID, s.backend(ctx), openSession(ctx, url)
			lives := func(change string, proxyRolls bool, do func()) {
				GinkgoHelper()
				before := s.server(ctx).Status.Workload.Generation
				do()
				grown := int64(0)
				if proxyRolls {
					grown = 1
				}
				Eventually(ctx, func() int64 { return s.server(ctx).Status.Workload.Generation }).
					Should(Equal(before+grown), change)
				s.ready(ctx)
				Expect(session.call(ctx)).To(ContainSubstring(`"result"`), "the session after %s", change)
				Expect(s.pods(ctx, workload.ComponentBackend)[0].UID).To(Equal(pod), change)
				Expect(s.backend(ctx).Generation).To(Equal(set.Generation), change)
			}
			lives("another origin", true, func() {
				s.apply(ctx, "{"+text+", proxy: {allowedOrigins: [https://a.example.com]}}")
			})
			lives("more proxies", false, func() {
				s.apply(ctx, "{"+text+", proxy: {allowedOrigins: [https://a.example.com], replicas: 2}}")
			})
			lives("more memory for the proxy", true, func() {
				s.apply(ctx,
					"{"+text+`, proxy: {allowedOrigins: [https://a.example.com], replicas: 2, resources: {requests: {memory: 40Mi}}}}`)
			})
			lives("a label", false, func() {
				patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"red"}}}`))
				Expect(cluster.Patch(ctx, s.server(ctx), patch)).To(Succeed())
			})

			s.apply(ctx, "{"+text+`, env: [{name: ROUND, value: "2"}]}`)
			Eventually(ctx, func() int64 { return s.backend(ctx).Generation }).Should(Equal(set.Generation + 1))
			s.ready(ctx)
			Expect(s.pods(ctx, workload.ComponentBackend)[0].UID).NotTo(Equal(pod))
			Consistently(ctx, func() int64 { return s.backend(ctx).Generation }).WithTimeout(5 * time.Second).
				Should(Equal(set.Generation + 1))
			_, err := session.call(ctx)
			Expect(err).To(MatchError(ContainSubstring("404")))
		})

	It("comes back when its backend is killed", func(ctx SpecContext) {
		s := newStory("killed")
		s.apply(ctx, spec(1))
		server := s.ready(ctx)
		calls := callAgain(ctx, server.Status.URL, 2)
		pod := s.pods(ctx, workload.ComponentBackend)[0]
		Expect(cluster.Delete(ctx, &pod, client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			pods := s.pods(ctx, workload.ComponentBackend)
			g.Expect(pods).To(HaveLen(1))
			g.Expect(pods[0].UID).NotTo(Equal(pod.UID))
			g.Expect(ready(&pods[0])).To(BeTrue())
		}).Should(Succeed())
		Eventually(ctx, func() (string, error) { return call(ctx, server.Status.URL) }).Should(Equal("answer"))
		calls.end()
		Expect(calls.wrong).To(BeEmpty())
		Expect(s.ready(ctx).Status.Workload.Generation).To(Equal(server.Status.Workload.Generation))
	})

	It("is asked now by a check, which says whether the network enforces what closes it", func(ctx SpecContext) {
		s := newStory("checked")
		s.apply(ctx, fmt.Sprintf(`{image: %q, args: ["-http", ":8080"], network: {backendIngress: ProxyOnly}}`, image))
		s.ready(ctx)
		Eventually(ctx, func() string { return checks(ctx) }).Should(SatisfyAll(ContainSubstring("operator OK"),
			ContainSubstring("rights OK"), ContainSubstring("policies OK"), ContainSubstring("crds OK")))
		Expect(checks(ctx, "-n", s.namespace, s.name, "--network")).To(SatisfyAll(ContainSubstring("status OK"),
			MatchRegexp(`answer OK it answers pod \S+ of its proxy with [1-9]`),
			ContainSubstring("network Failed NetworkPolicies are not enforced")))
		closeTo(ctx, s.pods(ctx, workload.ComponentBackend)[0], s.pods(ctx, workload.ComponentProxy)[0])
		Expect(checks(ctx, "-n", s.namespace, s.name, "--network")).To(SatisfyAll(ContainSubstring("answer OK"),
			ContainSubstring("network OK NetworkPolicies are enforced")))
	})

	It("finishes a rollout in whose middle the operator is killed", Serial, func(ctx SpecContext) {
		s := newStory("orphaned")
		s.apply(ctx, spec(1))
		first := s.ready(ctx).Status.Workload.Generation
		s.apply(ctx, spec(2))
		Eventually(ctx, func() int64 { return s.server(ctx).Status.Workload.Generation }).Should(Equal(first + 1))
		Expect(cluster.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("freehold-system"), client.GracePeriodSeconds(0))).
			To(Succeed())
		Expect(s.ready(ctx).Status.Workload.Generation).To(Equal(first + 1))
		Expect(call(ctx, s.server(ctx).Status.URL)).To(Equal("answer"))
	})

	It("names an image that wants to be root, and is ready once the spec says whom to run as", func(ctx SpecContext) {
		s := newStory("rooted")
		s.admitAll(ctx) // else the API server refuses the pod before kubelet can
		s.apply(ctx, fmt.Sprintf(`{image: %q, args: ["-http", ":8080"],
			podTemplate: {spec: {securityContext: {runAsUser: 0, runAsNonRoot: false}, containers: [{name: server, securityContext: {runAsNonRoot: true}}]}}}`, image))
		Eventually(ctx, func(g Gomega) {
			c := meta.FindStatusCondition(s.server(ctx).Status.Conditions, v1alpha1.ConditionReady)
			g.Expect(c).NotTo(BeNil())
			g.Expect(c.Status).To(Equal(metav1.ConditionFalse))
			g.Expect(c.Reason).To(Equal(v1alpha1.ReasonMustRunAsRoot))
			g.Expect(c.Message).To(ContainSubstring("runAsUser"))
		}).Should(Succeed())
		s.apply(ctx,
			fmt.Sprintf(`{image: %q, args: ["-http", ":8080"], podTemplate: {spec: {securityContext: {runAsUser: 1000}}}}`,
				image))
		s.ready(ctx)
	})
})

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// oldPod is a proxy pod that no ReplicaSet takes away when its content ages.
func oldPod(from corev1.Pod, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: from.Namespace, Labels: maps.Clone(from.Labels), Annotations: from.Annotations,
	}, Spec: *from.Spec.DeepCopy()}
	delete(pod.Labels, "pod-template-hash")
	pod.Spec.NodeName = ""
	return pod
}

// statusWrites counts the operator's writes to the server's status, from the
// API server's audit log. One that was refused, as of an object that another has just written, is none.
func statusWrites(s story) int {
	GinkgoHelper()
	out, err := exec.Command("grep", "-c", "-E", //nolint:gosec // fixed words and a generated name
		`"stage":"ResponseComplete".*"requestURI":"/apis/freehold.dev/v1alpha1/namespaces/`+s.namespace+`/mcpservers/`+s.name+
			`/status\?.*"userAgent":"freehold-operator.*"responseStatus":\{"metadata":\{\},"code":2`, auditLog()).Output()
	Expect(err).NotTo(HaveOccurred())
	n := 0
	_, err = fmt.Sscan(string(out), &n)
	Expect(err).NotTo(HaveOccurred())
	Expect(n).To(BeNumerically(">", 0))
	return n
}

// checks is the table of kubectl freehold check, with single spaces.
func checks(ctx context.Context, args ...string) string {
	GinkgoHelper()
	check := exec.CommandContext(ctx, "bin/kubectl-freehold", append([]string{"check"}, args...)...) //nolint:gosec // ours
	out, err := check.CombinedOutput()
	var findings *exec.ExitError
	if err != nil {
		Expect(errors.As(err, &findings) && findings.ExitCode() == 1).To(BeTrue(), "%v: %s", err, out)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}
