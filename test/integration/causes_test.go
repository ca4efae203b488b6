package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// cause is a reason for not being ready: how the image fares, what the spec
// asks for, what Ready then says, and what ends it.
type cause struct {
	fate    kit.Fate
	more    string
	reason  string
	message string
	cure    string
}

// Why it is not ready stands in Ready. Which state of a pod has which reason is in controllers/conditions; here one of
// each way to learn of it: the pod, its references, and events.
var _ = DescribeTable("The cause is named:", func(c cause) {
	s := newEnv()
	image := "registry.example.com/" + s.Namespace + ":1"
	plane.Kubelet.Image(image, c.fate)
	operate(s)
	s.RunProxies()
	s.Apply(git, kit.Server("echo", image, c.more))
	live := notReady(s, "echo", c.reason)
	Expect(readyMessage(live)).To(ContainSubstring(c.message))
	announced(s, live, corev1.EventTypeWarning, c.reason)

	plane.Kubelet.Image(image, kit.Runs())
	if c.cure != "" {
		s.Apply("somebody", c.cure)
	}
	ready(s, "echo")
},
	Entry("an image that cannot be pulled",
		cause{
			fate: kit.ImagePullBackOff("not found"), reason: v1alpha1.ReasonImagePull,
			message: "cannot be pulled: check its name",
		}),
	Entry("a Secret that is missing in env", cause{
		more:   `env: [{name: A, valueFrom: {secretKeyRef: {name: login, key: token}}}]`,
		reason: v1alpha1.ReasonMissingReference, message: `secret "login" not found`, cure: secret("login"),
	}),
	Entry("a Secret that is missing in a volume", cause{
		more:   "volumes: [{name: v, secret: {secretName: login}}]\nvolumeMounts: [{name: v, mountPath: /v}]",
		reason: v1alpha1.ReasonMissingReference, message: `secret "login" not found`, cure: secret("login"),
	}),
)

// The API server sends what anybody but kubelet may say of a pod, too, and gates are its own.
var _ = It("The cause is named: a proxy with scheduling gates, and a volume that is attached elsewhere", func() {
	s := newEnv()
	operate(s)
	s.RunProxies()
	s.Apply(git, server("echo", "proxy: {podTemplate: {spec: {schedulingGates: [{name: example.com/queue}]}}}"))
	live := notReady(s, "echo", v1alpha1.ReasonSchedulingGated)
	Expect(readyMessage(live)).To(
		ContainSubstring("scheduling gates (example.com/queue): whoever adds a gate removes it; see " +
			"spec.proxy.podTemplate.spec.schedulingGates"))

	image := "registry.example.com/" + s.Namespace + ":1"
	plane.Kubelet.Image(image, kit.Creating())
	s.Apply(git, kit.Server("echo", image, ""))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "echo-backend-0"}}
	s.Await(pod, "the pod is there", func() error { return nil })
	s.Must(s.Client.Create(s.Ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "attach", Namespace: s.Namespace},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: s.Namespace, Name: pod.Name, UID: pod.UID},
		Type:           corev1.EventTypeWarning,
		Reason:         "FailedAttachVolume",
		Message:        `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) other-0`,
		LastTimestamp:  metav1.Now(),
	}), "saying that")
	Expect(readyMessage(notReady(s, "echo", v1alpha1.ReasonVolumeNotMounted))).
		To(HavePrefix(`volume "pvc-1" is attached to another node`))
	plane.Kubelet.Image(image, kit.Runs())
	ready(s, "echo")
})

// A quota and a LimitRange name what cures them.
var _ = DescribeTable("The field is named that cures", func(limits, more, cure, cured string) {
	s := newEnv()
	s.Apply("somebody", limits)
	limited(s)
	operate(s)
	s.RunProxies()
	s.Apply(git, server("echo", more))
	live := notReady(s, "echo", v1alpha1.ReasonPodRefused)
	Expect(readyMessage(live)).To(
		And(ContainSubstring(cure), Not(ContainSubstring("echo-proxy-")), Not(ContainSubstring("echo-backend-0"))))
	s.Apply(git, server("echo", cured))
	ready(s, "echo")
},
	Entry("a quota, of a proxy and of a bridge", quota, "transport: sse",
		"write spec.proxy.resources.limits.cpu, or let a LimitRange",
		"transport: sse\nproxy: {resources: {limits: {cpu: 1}}}\npodTemplate: {spec: {resources: {limits: {cpu: 1, memory: "+
			"1Gi}}}}"),
	Entry("a LimitRange",
		`{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","default":{"cpu":"5m"}}]}}`, "",
		"write spec.proxy.resources.limits.cpu, or correct the LimitRange", "proxy: {resources: {limits: {cpu: 1}}}"),
)

// limited waits until the API server knows the limits of a namespace. The controller that says
// what is used of a quota does not run here.
func limited(s *kit.Env) {
	GinkgoHelper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: s.Namespace}}
	if err := s.Client.Get(s.Ctx, client.ObjectKeyFromObject(q), q); err == nil {
		q.Status.Hard, q.Status.Used = q.Spec.Hard, corev1.ResourceList{corev1.ResourceLimitsCPU: resource.MustParse("0")}
		Expect(s.Client.Status().Update(s.Ctx, q)).To(Succeed())
	}
	Eventually(func() error { return admits(s) }).Should(MatchError(Or(
		ContainSubstring("must specify limits.cpu"), ContainSubstring("must be less than or equal to cpu limit"))))
}

// admits asks the API server whether a pod may be made.
func admits(s *kit.Env) error {
	return s.Client.Create(s.Ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "try-", Namespace: s.Namespace},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   new(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")},
				},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}, client.DryRunAll)
}

const quota = `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"limits.cpu":"9"}}}`

// A Deployment says in a condition why it gets no pod, a StatefulSet only in an
// Event. The namespaces of these stories enforce Pod Security's "restricted".
var _ = It("The cause is named: a backend whose pods the API server refuses", func() {
	s := newEnv()
	operate(s)
	s.RunProxies()
	s.Apply(git, server("echo", "podTemplate: {spec: {securityContext: {runAsNonRoot: false}}}"))
	live := notReady(s, "echo", v1alpha1.ReasonPodRefused)
	Expect(readyMessage(live)).To(
		HavePrefix(`the API server refuses the pod: it is forbidden: violates PodSecurity "restricted:latest"`))
	s.Apply(git, server("echo", ""))
	ready(s, "echo")
})

// A server that lacks its finalizer says so, and runs, rolls out and stops.
var _ = It("A finalizer that is refused keeps nothing else from happening", func() {
	s := newEnv()
	allow := prohibition{
		message: "no finalizer today", operation: admissionregistrationv1.Update, group: v1alpha1.SchemeGroupVersion.Group,
		version: "v1alpha1", resource: "mcpservers",
		allowed: `!has(object.metadata.finalizers)`,
		try: func(s *kit.Env) error {
			if s.Client.Get(s.Ctx, client.ObjectKeyFromObject(serverOf(s, "echo")), serverOf(s, "echo")) != nil {
				s.Apply(git, server("echo", ""))
			}
			add := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/try"]}}`))
			return s.Client.Patch(s.Ctx, serverOf(s, "echo"), add, client.DryRunAll)
		},
	}.forbid(s)
	operate(s)
	s.RunProxies()
	live := ready(s, "echo")
	c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionFinalizerMissing)
	Expect(c).To(HaveField("Message", ContainSubstring("no finalizer today")))
	s.Apply(git, kit.Server("echo", imageTwo, ""))
	rolledOut(s, "echo", 2)
	ready(s, "echo")
	s.Apply(git, kit.Server("echo", imageTwo, "suspend: true"))
	stopped(s, "echo", v1alpha1.ReasonSuspended)
	allow()
	s.Await(live, "it has the finalizer", func() error {
		if len(live.Finalizers) != 1 ||
			meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionFinalizerMissing) != nil {
			return fmt.Errorf("the finalizers are %q", live.Finalizers)
		}
		return nil
	})
})

// What needs a person is stalled after a while, and not for longer than that.
var _ = It("A cause is stalled after the deadline, over a restart of the operator, and goes by itself", func() {
	s := newEnv()
	image := "registry.example.com/" + s.Namespace + ":1"
	plane.Kubelet.Image(image, kit.ImagePullBackOff("not found"))
	op := operate(s)
	s.RunProxies()
	s.Apply(git, kit.Server("echo", image, "progressDeadlineSeconds: 15"))
	live := notReady(s, "echo", v1alpha1.ReasonImagePull)
	Expect(meta.IsStatusConditionTrue(live.Status.Conditions, v1alpha1.ConditionReconciling)).To(BeTrue())
	op.restart()
	s.Await(live, "it is stalled", func() error {
		if !meta.IsStatusConditionTrue(live.Status.Conditions, v1alpha1.ConditionStalled) {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	stalled(live, v1alpha1.ReasonImagePull)
	plane.Kubelet.Image(image, kit.Runs())
	ready(s, "echo")
})

// A proxy that does not know of a protection must not go on without it.
var _ = DescribeTable("A protection that is asked for stops the proxy, also where refused is", func(what prohibition) {
	s := newEnv()
	operate(s)
	s.RunProxies()
	s.Apply(git, server("echo", long))
	atRest(s, "echo")
	allow := what.forbid(s)
	s.Apply(authorizer, withPolicy)
	live := proxyOf(s, "echo")
	s.Await(live, "no proxy is wanted", func() error { return equal(int(*live.Spec.Replicas), 0) })
	Expect(readyMessage(notReady(s, "echo", v1alpha1.ReasonApplyFailed))).To(ContainSubstring(what.message))
	allow()
	rolledOut(s, "echo", 2)
	s.Await(live, "the proxy with the policies is wanted", func() error { return equal(int(*live.Spec.Replicas), 1) })
},
	Entry("its successor", prohibition{
		message: "no ConfigMap today", operation: admissionregistrationv1.Create, version: "v1", resource: "configmaps",
		allowed: "false",
		try: func(s *kit.Env) error {
			return s.Client.Create(s.Ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "try-", Namespace: s.Namespace},
			})
		},
	}),
	Entry("its number", prohibition{
		message: "no claim today", operation: admissionregistrationv1.Update, group: v1alpha1.SchemeGroupVersion.Group,
		version: "v1alpha1", resource: "mcpservers/status",
		allowed: "object.status.workload == oldObject.status.workload",
		try: func(s *kit.Env) error {
			claim := client.RawPatch(types.MergePatchType,
				[]byte(`{"status":{"workload":{"generation":99,"hash":"`+strings.Repeat("0", 64)+`"}}}`))
			return s.Client.Status().Patch(s.Ctx, serverOf(s, "echo"), claim, client.DryRunAll)
		},
	}),
)

var _ = Describe("Policies that cannot be read", func() {
	const wrong = "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo}\nspec: {authzConfig: " +
		"{policies: [{name: all, policy: \"permit(all);\"}]}}\n"
	invalid := func(s *kit.Env) string {
		return readyMessage(notReady(s, "echo", v1alpha1.ReasonSpecInvalid))
	}

	It("stop what runs without any, and leave the last good ones where there are some", func() {
		s := newEnv()
		operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		ready(s, "echo")
		proxy := proxyOf(s, "echo")
		wanted := func() error { return equal(int(*proxy.Spec.Replicas), 1) }

		s.Apply(authorizer, wrong)
		s.Await(proxy, "no proxy is wanted", func() error { return equal(int(*proxy.Spec.Replicas), 0) })
		Expect(invalid(s)).To(And(ContainSubstring(`spec.authzConfig: policy "all", line 1, column 11: `),
			ContainSubstring("The proxy is stopped until then")))

		s.Apply(authorizer, withPolicy)
		s.Await(proxy, "the proxy is wanted again", wanted)
		rolledOut(s, "echo", 2)
		ready(s, "echo")

		s.Apply(authorizer, wrong)
		Expect(invalid(s)).To(ContainSubstring("The last accepted content keeps running"))
		Expect(s.Client.Get(s.Ctx, client.ObjectKeyFromObject(proxy), proxy)).To(Succeed())
		Expect(wanted()).To(Succeed())
	})
})

// prohibition is somebody's policy.
type prohibition struct {
	message                  string
	operation                admissionregistrationv1.OperationType
	group, version, resource string
	// allowed is what may be written, in CEL.
	allowed string
	// try does what is forbidden.
	try func(*kit.Env) error
}

// forbid puts the policy into a namespace. Once it is withdrawn the operator is woken,
// which would not know for minutes.
func (p prohibition) forbid(s *kit.Env) (withdraw func()) {
	GinkgoHelper()
	name := strings.ReplaceAll(p.message, " ", "-") + "-" + s.Namespace
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(name)},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.Namespace}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
					{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{p.operation},
						Rule: admissionregistrationv1.Rule{
							APIGroups: []string{p.group}, APIVersions: []string{p.version},
							Resources: []string{p.resource},
						},
					}},
				},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: p.allowed, Message: p.message}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	Expect(s.Client.Create(s.Ctx, policy)).To(Succeed())
	Expect(s.Client.Create(s.Ctx, binding)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		_ = s.Client.Delete(ctx, binding)
		_ = s.Client.Delete(ctx, policy)
	})
	try := func() error { return p.try(s) }
	Eventually(try).Should(MatchError(ContainSubstring(p.message)))
	return func() {
		GinkgoHelper()
		Expect(s.Client.Delete(s.Ctx, binding)).To(Succeed())
		Eventually(try).Should(Succeed())
		s.Patch(serverOf(s, "echo"), "somebody", `{"metadata":{"labels":{"policy":"withdrawn"}}}`)
	}
}

func secret(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q},"stringData":{"token":"t"}}`, name)
}

// announced waits for an event on the server.
func announced(s *kit.Env, live *v1alpha1.MCPServer, kind, reason string) {
	GinkgoHelper()
	var events corev1.EventList
	s.AwaitAll(&events, "an event says "+reason, func() error {
		for _, e := range events.Items {
			if e.InvolvedObject.UID == live.UID && e.Type == kind && e.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("none of %d does", len(events.Items))
	})
}

func stalled(live *v1alpha1.MCPServer, reason string) {
	GinkgoHelper()
	Expect(live.Status.Conditions).To(ContainElement(And(
		HaveField("Type", v1alpha1.ConditionStalled), HaveField("Status", BeEquivalentTo("True")),
		HaveField("Reason", reason))))
	Expect(live.Status.Conditions).NotTo(ContainElement(HaveField("Type", v1alpha1.ConditionReconciling)))
}

const withPolicy = "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo}\nspec: {authzConfig: " +
	"{policies: [{name: all, policy: \"permit(principal, action, resource);\"}]}}\n"
