package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// Two operators, as during an upgrade, both work on the same old view. Only one
// of them may number its content.
var _ = Describe("Two passes on one stale snapshot", func() {
	claims := func(wire func(*rest.Config)) []string {
		GinkgoHelper()
		s := newEnv()
		s.Apply(git, server("echo", ""))
		older := newManual(s, "freehold.dev/runner:older", wire)
		older.passes()
		newer := newManual(s, "freehold.dev/runner:newer", wire)
		recording := s.Record(serverOf(s, "echo"))
		s.Apply(git, server("echo", "args: [a]"))
		older.reader.freeze()
		older.reader.share(newer.reader)
		Expect(older.pass()).To(Succeed())
		Expect(newer.pass()).To(Succeed())
		var claimed []string
		recording.Check(func(f kit.State) error {
			seen := &v1alpha1.MCPServer{}
			if err := decode(f.Object, seen); err != nil {
				return err
			}
			mark := fmt.Sprintf("%d %s", seen.Status.Workload.Generation, seen.Status.Workload.Hash)
			if among(mark, claimed...) != nil {
				claimed = append(claimed, mark)
			}
			return nil
		})
		return claimed[1:] // the first was claimed before
	}

	It("give one workload generation", func() {
		Expect(claims(nil)).To(HaveLen(1))
	})

	It("would give two contents under one number without the claim's resourceVersion", func() {
		versionless := rewritten(func(path string, body map[string]any) {
			if strings.Contains(path, "/status") {
				delete(body["metadata"].(map[string]any), "resourceVersion")
			}
		})
		Expect(claims(versionless)).To(ConsistOf(HavePrefix("2 "), HavePrefix("2 ")))
	})
})

// An object may go between the read and the write that rests on it.
var _ = Describe("A deletion between read and apply", func() {
	DescribeTable("leaves nothing behind, and the next pass makes the child whole:",
		func(child func() client.Object, drift string) {
			s := newEnv()
			s.Apply(git, server("echo", ""))
			process := newManual(s, runnerImage, nil)
			process.passes()
			object := child()
			s.Read(object)
			before := object.GetUID()
			s.Force(intruder, fmt.Sprintf(drift, object.GetName())) // so that there is something to write
			process.reader.after = func(read client.Object) {
				if kindOf(read) == kindOf(object) && read.GetName() == object.GetName() && read.GetUID() == before {
					s.Delete(object, client.PropagationPolicy(metav1.DeletePropagationBackground))
					s.AwaitGone(object)
				}
			}
			mark := process.requests.Mark()
			Expect(process.pass()).To(Succeed())
			Expect(s.Exists(object)).To(BeFalse(), "it came back:\n%s", process.requests.Since(mark))

			process.reader.after = nil
			process.passes()
			s.Read(object)
			Expect(object.GetUID()).NotTo(Equal(before))
			manager := "mcpserver.freehold.dev/children"
			if _, grants := object.(*rbacv1.Role); grants {
				manager = "rbac.freehold.dev/children"
			}
			s.Owns(object, manager, "metadata.ownerReferences", `metadata.labels["freehold.dev/server"]`)
		},
		Entry("Role", func() client.Object { return &rbacv1.Role{ObjectMeta: called("echo-runner")} },
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":%q},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`),
		Entry("Deployment", func() client.Object { return &appsv1.Deployment{ObjectMeta: called("echo-proxy")} },
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q},"spec":{"replicas":0}}`),
	)

	It("brings no server back whose finalizer was about to be set", func() {
		s := newEnv()
		s.Apply(git, server("echo", ""))
		process := newManual(s, runnerImage, nil)
		process.reader.after = deleting(s)
		Expect(process.pass()).To(Succeed())
		Expect(s.Exists(serverOf(s, "echo"))).To(BeFalse(), "it came back:\n%s", process.requests.Since(0))
	})

	It("brings no server back whose finalizer was about to be released", func() {
		s := newEnv()
		s.Apply(git, server("echo", ""))
		process := newManual(s, runnerImage, nil)
		Expect(process.pass()).To(Succeed())
		s.Delete(serverOf(s, "echo"))
		process.reader.after = deleting(s)
		Expect(process.pass()).To(Succeed())
		Expect(s.Exists(serverOf(s, "echo"))).To(BeFalse(), "it came back:\n%s", process.requests.Since(0))
	})

	It("has what a late pass still makes collected", func() {
		s := newEnv()
		s.Apply(git, server("echo", ""))
		process := newManual(s, runnerImage, nil)
		process.passes()
		s.Delete(&corev1.Service{ObjectMeta: called("echo-proxy")})
		process.reader.after = deleting(s)
		Expect(process.pass()).To(Succeed())
		Expect(s.Exists(serverOf(s, "echo"))).To(BeFalse())
		for _, list := range []client.ObjectList{
			&corev1.ServiceList{}, &appsv1.DeploymentList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &corev1.PodList{},
		} {
			s.AwaitAll(list, "everything of the server is collected", func() error { return emptyList(list) },
				client.HasLabels{workload.LabelServer})
		}
	})
})

// deleting removes the server, with its finalizer, as soon as it was read.
func deleting(s *kit.Env) func(client.Object) {
	return func(read client.Object) {
		if server, ok := read.(*v1alpha1.MCPServer); ok && s.Exists(serverOf(s, server.Name)) {
			s.Patch(serverOf(s, server.Name), "kubectl", `{"metadata":{"finalizers":null}}`)
			s.Delete(serverOf(s, server.Name))
			s.AwaitGone(serverOf(s, server.Name))
		}
	}
}
