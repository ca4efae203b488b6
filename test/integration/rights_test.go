package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/test/kit"
)

// userOf is somebody who may do these verbs on one resource of the test's namespace, and nothing else.
func userOf(s *kit.Env, name, group, resource string, verbs ...string) *kit.Env {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Name: name, Namespace: s.Namespace}
	s.Must(s.Client.Create(s.Ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs},
	}}), "making a role")
	s.Must(s.Client.Create(s.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: s.Namespace}},
	}), "binding a role")
	Eventually(func() bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + s.Namespace + ":" + name,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: s.Namespace, Verb: verbs[0], Group: group,
				Resource: resource,
			},
		}}
		s.Must(s.Client.Create(s.Ctx, review), "asking what "+name+" may do")
		return review.Status.Allowed
	}).Should(BeTrue())
	return s.As(s.Namespace, name)
}

// escape is what a runner's rights are worth to another hand.
const escape = `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"ci-backend"},"spec":{"serviceName":"s","selector":{"matchLabels":{"a":"b"}},
	"template":{"metadata":{"labels":{"a":"b"}},"spec":{"volumes":[{"name":"node","hostPath":{"path":"/"}}],
	"containers":[{"name":"c","image":"i","securityContext":{"privileged":true}}]}}}}`

// mayEscape expects that the account named ci-runner is let write the backend of the server ci, or is not.
func mayEscape(s *kit.Env, may bool) {
	GinkgoHelper()
	Eventually(func() bool { // the API server looks at roles in a cache
		_, err := s.As(s.Namespace, "ci-runner").
			ApplyErr(string(contract.RunnerBackend), escape, client.DryRunAll, client.ForceOwnership)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot patch resource")
	}).Should(Equal(!may))
}

func account(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: called(name)}
}

func binding(name string) *rbacv1.RoleBinding { return &rbacv1.RoleBinding{ObjectMeta: called(name)} }

var _ = Describe("The runner's rights", func() {
	It("are given to no account of another hand, and nothing runs as it", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply("kubectl", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"ci-runner"}}`)
		userOf(s, "author", "freehold.dev", "mcpservers", "get", "create", "patch").Apply(git, server("ci", ""))
		live := notReady(s, "ci", v1alpha1.ReasonNameTaken)
		stalled(live, v1alpha1.ReasonNameTaken)
		Expect(readyMessage(live)).To(ContainSubstring("ServiceAccount"))
		quiet(op)
		for _, none := range []client.Object{
			&rbacv1.Role{ObjectMeta: called("ci-runner")}, binding("ci-runner"),
			proxyOf(s, "ci"),
		} {
			Expect(s.Exists(none)).To(BeFalse(), s.Title(none))
		}
		mayEscape(s, false)

		s.Delete(account("ci-runner"))
		s.AwaitGone(account("ci-runner"))
		s.Apply(git, server("ci", "args: [b]"))
		ready(s, "ci")
		mayEscape(s, true) // the runner's own, and no Pod Security beside it: that is another lock
	})

	It("are not bound to a Role of another hand", func() {
		s := newEnv()
		operate(s)
		s.Apply("kubectl", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"ci-runner"},
			"rules":[{"apiGroups":["freehold.dev"],"resources":["mcpservers"],"verbs":["get","list","watch"]}]}`)
		s.Apply(git, server("ci", ""))
		notReady(s, "ci", v1alpha1.ReasonNameTaken)
		Expect(s.Exists(binding("ci-runner"))).To(BeFalse())
	})

	DescribeTable("go where another hand takes", func(take func(*kit.Env)) {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("ci", ""))
		atRest(s, "ci")
		mayEscape(s, true)
		op.stop() // so that nothing of ours stands there for a moment
		take(s)
		op.start(controllers.Options{})
		live := notReady(s, "ci", v1alpha1.ReasonNameTaken)
		s.AwaitGone(binding("ci-runner"))
		announced(s, live, corev1.EventTypeWarning, "RightsWithdrawn")
		mayEscape(s, false)
		proxy := proxyOf(s, "ci")
		s.Apply(git, server("ci", "proxy: {replicas: 2}"))
		notReady(s, "ci", v1alpha1.ReasonNameTaken)
		s.Read(proxy)
		Expect(*proxy.Spec.Replicas).To(Equal(int32(1)), "no more pods of another hand's account")
		s.Apply(git, server("ci", "suspend: true"))
		s.Await(proxy, "it stops where it is asked to", func() error {
			if *proxy.Spec.Replicas != 0 {
				return fmt.Errorf("there are %d replicas", *proxy.Spec.Replicas)
			}
			return nil
		})
	},
		Entry("the account", func(s *kit.Env) {
			s.Delete(account("ci-runner"))
			s.AwaitGone(account("ci-runner"))
			s.Apply("kubectl", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"ci-runner"}}`)
		}),
		Entry("the account itself, and leaves nothing of ours on it", func(s *kit.Env) {
			live := s.Unstructured(account("ci-runner"))
			live.SetLabels(nil)
			live.SetOwnerReferences(nil)
			live.SetManagedFields([]metav1.ManagedFieldsEntry{{}})
			s.Must(s.Client.Update(s.Ctx, live, client.FieldOwner("kubectl")), "taking the account")
		}),
	)
})

// forged are run configs of echo as somebody may write them who may write ConfigMaps, with all that can be copied from
// a right one: label, owner, the entry of our manager, content.
func forged(s *kit.Env, right *corev1.ConfigMap, number string) []*corev1.ConfigMap {
	right = right.DeepCopy()
	right.ObjectMeta = metav1.ObjectMeta{
		Namespace: s.Namespace, Labels: right.Labels, OwnerReferences: right.OwnerReferences,
		Annotations: map[string]string{
			revision.AnnotationGeneration: number,
			revision.AnnotationHash:       right.Annotations[revision.AnnotationHash],
		},
	}
	right.OwnerReferences[0].BlockOwnerDeletion = nil // some clusters ask for a right to state it
	named, other, copied := right.DeepCopy(), right.DeepCopy(), right.DeepCopy()
	named.Name = "echo-run-" + number + "-" + right.Annotations[revision.AnnotationHash][:10]
	other.Name, other.Annotations[revision.AnnotationHash] = "echo-run-"+number+"-0123456789",
		strings.Repeat("0123456789", 6)+"0123"
	copied.Name = "a-copy"
	return []*corev1.ConfigMap{named, other, copied}
}

var _ = Describe("Who may only write ConfigMaps", func() {
	It("changes nothing of a server", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", long))
		live := atRest(s, "echo")
		quiet(op)
		mark, right := op.requests.Mark(), runConfigOf(s, "echo")
		user := userOf(s, "writer", "", "configmaps", "create", "update")
		for _, number := range []string{"1", "2", "999999999999999998", "999999999999999999"} {
			for _, config := range forged(s, right, number) {
				err := user.Client.Create(s.Ctx, config, client.FieldOwner("w"))
				if apierrors.IsAlreadyExists(err) {
					continue
				}
				s.Must(err, "forging")
				config.ManagedFields = right.ManagedFields // which a create does not take
				s.Must(user.Client.Update(s.Ctx, config, client.FieldOwner("w")), "forging an entry")
			}
		}
		quiet(op)
		Expect(op.writes(mark)).To(BeEmpty(), op.writes(mark).String())
		s.Apply(git, server("echo", "args: [b]"))
		again := rolledOut(s, "echo", 2)
		Expect(again.Status.Workload.Hash).NotTo(Equal(live.Status.Workload.Hash))
		ready(s, "echo")
		Expect(s.Exists(&corev1.ConfigMap{ObjectMeta: called("a-copy")})).To(BeTrue(), "a copy is not ours to delete")
	})
})
