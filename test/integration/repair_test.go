package integration

import (
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

const intruder = "intruder"

// What we state is repaired, and nothing of others stays in our containers; what others add
// beside them stays, and is named.
var _ = Describe("A hand on our objects", func() {
	var s *kit.Env
	var op *operator
	BeforeEach(func() {
		s = newEnv()
		op = operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", `args: [a]`))
		ready(s, "echo")
	})

	It("is taken off our containers, while a label, an annotation and a sidecar stay", func() {
		for _, workload := range []client.Object{proxyOf(s, "echo"), backendOf(s, "echo")} {
			kind := s.Unstructured(workload).GetKind()
			s.Apply(intruder, fmt.Sprintf(foreignParts, kind, workload.GetName()))
			container := podOf(s, workload).Containers[0]
			evil := fmt.Sprintf(evilContainer, kind, workload.GetName(), container.Name)
			evil += "        args: [--evil]\n        env: [{name: LD_PRELOAD, value: evil.so}]\n"
			s.Force(intruder, evil)
			s.Await(workload, "our container is as it was", func() error {
				pod := template(workload)
				i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == container.Name })
				now := pod.Spec.Containers[i]
				switch {
				case now.Image != container.Image || fmt.Sprint(now.Args) != fmt.Sprint(container.Args):
					return fmt.Errorf("image %s, args %s", now.Image, now.Args)
				case fmt.Sprint(now.Env) != fmt.Sprint(container.Env):
					return fmt.Errorf("env %v", now.Env)
				case now.SecurityContext.AllowPrivilegeEscalation == nil || *now.SecurityContext.AllowPrivilegeEscalation:
					return fmt.Errorf("privileges may escalate")
				}
				return nil
			})
			pod := template(workload)
			Expect(pod.Spec.Containers).To(ContainElement(HaveField("Name", "sidecar")))
			Expect(pod.Annotations).To(HaveKeyWithValue("mesh.example.com/status", "injected"))
			Expect(workload.GetLabels()).To(HaveKeyWithValue("team", "red"))
			s.Owns(workload, intruder, "metadata.labels.team", "spec.template.spec.containers[name=sidecar]")
		}
		live := serverOf(s, "echo")
		s.Await(live, "foreign content is named", func() error {
			c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionForeignPodContent)
			if c == nil || c.Status != metav1.ConditionTrue {
				return fmt.Errorf("the condition is %+v", c)
			}
			return contains(c.Message, "sidecar")
		})
		ready(s, "echo")
	})

	DescribeTable("is taken back once where it opened the node's network to", func(object func() client.Object) {
		workload := object()
		recording := s.Record(workload)
		kind := s.Unstructured(workload).GetKind()
		// No restricted namespace admits such pods, so none comes to run.
		s.Apply(intruder, fmt.Sprintf("apiVersion: apps/v1\nkind: %s\nmetadata: {name: %s}\nspec: {template: {spec: "+
			"{hostNetwork: true}}}\n", kind, workload.GetName()))
		s.Await(workload, "hostNetwork is off", func() error {
			if template(workload).Spec.HostNetwork {
				return fmt.Errorf("it is on")
			}
			return nil
		})
		quiet(op)
		mark := op.requests.Mark()
		s.Apply(git, server("echo", `args: [a]`+"\nproxy: {replicas: 2}"))
		proxiesReady(s, 2)
		ready(s, "echo")
		flips, was := 0, false
		recording.Check(func(f kit.State) error {
			on, _, err := nested(f, "spec", "template", "spec", "hostNetwork")
			if (on == true) != was {
				flips, was = flips+1, on == true
			}
			return err
		})
		Expect(flips).To(Equal(2), "on once, off once")
		// A refused attempt, because the object moved meanwhile, is no write.
		Expect(op.writes(mark).Of("deployments").Answered(200)).
			To(HaveLen(1), "scaling is one write, so the repair is not repeated:\n%s", op.writes(mark))
	},
		Entry("the proxy", func() client.Object { return proxyOf(s, "echo") }),
		Entry("the backend", func() client.Object { return backendOf(s, "echo") }),
	)

	It("that deletes a child brings it back", func() {
		for _, gone := range []client.Object{
			&corev1.ServiceAccount{ObjectMeta: called("echo-runner")}, &rbacv1.Role{ObjectMeta: called("echo-runner")},
			&rbacv1.RoleBinding{ObjectMeta: called("echo-runner")},
			&appsv1.Deployment{ObjectMeta: called("echo-proxy")}, &corev1.Service{ObjectMeta: called("echo-proxy")},
			&appsv1.StatefulSet{ObjectMeta: called("echo-backend")}, &corev1.Service{ObjectMeta: called("echo-backend")},
			&corev1.Service{ObjectMeta: called("echo-backend-headless")},
		} {
			s.Read(gone)
			before := gone.GetUID()
			s.Delete(gone)
			s.Await(gone, s.Title(gone)+" is back", func() error {
				if gone.GetUID() == before || gone.GetDeletionTimestamp() != nil {
					return fmt.Errorf("it is still the old one")
				}
				return nil
			})
		}
		live := ready(s, "echo")
		Expect(live.Status.Workload.Generation).To(Equal(int64(1)))
	})

	It("that scales the backend behind the server's back is taken off", func() {
		s.Scale(backendOf(s, "echo"), intruder, 4)
		set := backendOf(s, "echo")
		s.Await(set, "the scale is ours again", func() error {
			if owners := s.OwnersOf(set, "spec.replicas"); !slices.Contains(owners, "mcpserver.freehold.dev/scale") {
				return fmt.Errorf("spec.replicas is owned by %q", owners)
			}
			return nil
		})
		backendsReady(s, 1)
	})
})

const foreignParts = `
apiVersion: apps/v1
kind: %s
metadata: {name: %s, labels: {team: red}}
spec:
  template:
    metadata: {annotations: {mesh.example.com/status: injected}}
    spec:
      containers:
      - name: sidecar
        image: mesh:1
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

const evilContainer = foreignParts + `      - name: %s
        image: evil:1
        securityContext: {allowPrivilegeEscalation: true}
`

// A name that we need may be taken by an object that is not ours.
var _ = DescribeTable("A foreign object of a name that we need is reported, not taken:", func(object, manager string) {
	s := newEnv()
	operate(s)
	s.RunProxies()
	foreign := s.Apply("somebody", object)
	before := foreign.GetManagedFields()
	s.Apply(git, server("echo", ""))
	live := notReady(s, "echo", v1alpha1.ReasonNameTaken)
	Expect(readyMessage(live)).To(And(ContainSubstring(foreign.GetKind()), ContainSubstring(foreign.GetName()),
		ContainSubstring("delete or rename that object")))
	s.OwnsNothing(foreign, manager)
	Expect(s.Unstructured(foreign).GetManagedFields()).
		To(ContainElements(before), "somebody wrote what somebody else stated")

	s.Delete(foreign)
	s.AwaitGone(foreign)
	s.Apply(git, server("echo", "args: [a]")) // whoever makes room may wait a minute, or touch the server
	ready(s, "echo")
},
	Entry("a Service",
		`{"apiVersion":"v1","kind":"Service","metadata":{"name":"echo-proxy"},"spec":{"ports":[{"port":80}]}}`,
		"mcpserver.freehold.dev/children"),
	Entry("a StatefulSet",
		`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"echo-backend"},"spec":{"replicas":0,"serviceName":"b","selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
		"runner.freehold.dev/backend"),
)

func called(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func runConfigOf(s *kit.Env, name string) *corev1.ConfigMap {
	GinkgoHelper()
	var list corev1.ConfigMapList
	s.Must(s.Client.List(s.Ctx, &list, client.InNamespace(s.Namespace),
		client.MatchingLabels{"freehold.dev/server": name}), "listing run configs")
	Expect(list.Items).To(HaveLen(1))
	return &list.Items[0]
}

func template(workload client.Object) *corev1.PodTemplateSpec {
	if set, ok := workload.(*appsv1.StatefulSet); ok {
		return &set.Spec.Template
	}
	return &workload.(*appsv1.Deployment).Spec.Template
}

func podOf(s *kit.Env, workload client.Object) corev1.PodSpec {
	GinkgoHelper()
	s.Read(workload)
	return template(workload).Spec
}
