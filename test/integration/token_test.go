package integration

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/workload"
)

// tokenPath is where the API server mounts tokens, and client-go looks for them.
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// strangers are containers of a user in the proxy pod.
const strangers = `
proxy:
  podTemplate:
    spec:
      initContainers:
      - {name: first, image: "registry.example.com/first:1", securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}
      containers:
      - {name: side, image: "registry.example.com/side:1", securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}
`

// What the template does not state, the API server adds to pods: it is the pods that count.
var _ = Describe("The runner's token", func() {
	It("is in the runner's container only, as the API server mounts it itself", func() {
		s := newEnv()
		operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", strangers))
		ready(s, "echo")
		var pods corev1.PodList
		Expect(s.Client.List(s.Ctx, &pods, client.InNamespace(s.Namespace),
			client.MatchingLabels(workload.Selector("echo", workload.ComponentProxy)))).To(Succeed())
		Expect(pods.Items).To(HaveLen(1))
		pod := pods.Items[0].Spec
		Expect(pod.ServiceAccountName).To(Equal("echo-runner"))
		Expect(withTokens(pod)).To(Equal([]string{"proxy"}))

		// The same account, in a pod that leaves it to the API server.
		object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "plain", Namespace: s.Namespace}, Spec: *pod.DeepCopy()}
		object.Spec.NodeName, object.Spec.AutomountServiceAccountToken = "", new(true)
		object.Spec.Volumes = nil
		object.Spec.InitContainers = nil
		object.Spec.Containers = object.Spec.Containers[1:]
		Expect(s.Client.Create(s.Ctx, object)).To(Succeed())
		Expect(withTokens(object.Spec)).To(Equal([]string{"side"}))
		ours, theirs := tokenOf(pod, "proxy"), tokenOf(object.Spec, "side")
		Expect(*ours.source.Sources[0].ServiceAccountToken.ExpirationSeconds).To(BeEquivalentTo(3600))
		theirs.source.Sources[0].ServiceAccountToken.ExpirationSeconds = ours.source.Sources[0].ServiceAccountToken.ExpirationSeconds
		Expect(ours.source).To(Equal(theirs.source))
		Expect(ours.mount.ReadOnly).To(Equal(theirs.mount.ReadOnly))
	})
})

// withTokens are the containers in which something stands at tokenPath, or that mount a volume with a token elsewhere.
func withTokens(pod corev1.PodSpec) []string {
	tokens := map[string]bool{}
	for _, volume := range pod.Volumes {
		tokens[volume.Name] = volume.Projected != nil && volume.Projected.Sources[0].ServiceAccountToken != nil
	}
	var found []string
	for _, container := range append(pod.InitContainers, pod.Containers...) {
		for _, mount := range container.VolumeMounts {
			if tokens[mount.Name] || strings.HasPrefix(mount.MountPath, tokenPath) {
				found = append(found, container.Name)
			}
		}
	}
	return found
}

type mounted struct {
	mount  corev1.VolumeMount
	source *corev1.ProjectedVolumeSource
}

// tokenOf is what a container has at tokenPath.
func tokenOf(pod corev1.PodSpec, name string) mounted {
	GinkgoHelper()
	for _, container := range pod.Containers {
		for _, mount := range container.VolumeMounts {
			for _, volume := range pod.Volumes {
				if container.Name == name && mount.MountPath == tokenPath && volume.Name == mount.Name {
					return mounted{mount, volume.Projected}
				}
			}
		}
	}
	Fail("there is nothing at " + tokenPath + " in " + name)
	return mounted{}
}
