package integration

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/test/kit"
)

// The stories lean on the faked pods, so that those have a story of their own.
var _ = Describe("The faked kubelet", func() {
	It("runs a Deployment and a StatefulSet through rollout, scaling and deletion", func() {
		s := newEnv()
		for _, kind := range []string{"Deployment", "StatefulSet"} {
			workload := s.Intent(workloadYAML(kind, "i:1", ""))
			recording := s.Record(workload)
			s.Apply("t", workloadYAML(kind, "i:1", ""))
			s.Await(workload, kind+" is current", current(workload))
			s.Apply("t", workloadYAML(kind, "i:2", ""))
			s.Await(workload, "the new image of "+kind+" is current", current(workload))
			s.Delete(workload)
			s.AwaitGone(workload)
			recording.Check(func(kit.State) error { return nil })
			Expect(recording.States()).To(ContainElement(HaveField("Deleted", true)))
		}
		var pods corev1.PodList
		s.AwaitAll(&pods, "all pods are gone", func() error { return none(len(pods.Items)) })
	})

	DescribeTable("lets a container fail as kubelet does:",
		func(fate kit.Fate, more, phase, reason, message string) {
			s := newEnv()
			image := "fate/" + s.Namespace
			plane.Kubelet.Image(image, fate)
			s.Apply("t", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"half"},"data":{"j":"v"}}`)
			s.Apply("t", workloadYAML("Deployment", image, more))
			var pods corev1.PodList
			s.AwaitAll(&pods, "the pod says why", func() error { return says(pods.Items, phase, reason, message) })

			plane.Kubelet.Image(image, kit.Runs())
			s.Apply("t", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"absent"},"data":{"k":"v"}}`)
			s.Apply("t", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"half"},"data":{"k":"v"}}`)
			s.Apply("t", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"absent"},"stringData":{"k":"v"}}`)
			s.AwaitAll(&pods, "the pod is ready", func() error { return allReady(pods.Items) })
		},
		Entry("an image that cannot be pulled", kit.ImagePullBackOff("not found"), "", "Pending", "ImagePullBackOff",
			"not found"),
		Entry("a Secret that is missing in the environment", kit.Runs(),
			`"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"absent","key":"k"}}}],`,
			"Pending", "CreateContainerConfigError", `secret "absent" not found`),
		Entry("a ConfigMap that is missing in the environment", kit.Runs(), `"envFrom":[{"configMapRef":{"name":"absent"}}],`,
			"Pending", "CreateContainerConfigError", `configmap "absent" not found`),
		Entry("a key that is missing", kit.Runs(),
			`"env":[{"name":"A","valueFrom":{"configMapKeyRef":{"name":"half","key":"k"}}}],`,
			"Pending", "CreateContainerConfigError", "couldn't find key k in configmap"),
	)

	It("keeps a pod in termination", func() {
		s := newEnv()
		s.Apply("t", workloadYAML("Deployment", "i:1", ""))
		var pods corev1.PodList
		s.AwaitAll(&pods, "the pod is ready", func() error { return allReady(pods.Items) })

		release := plane.Kubelet.HoldTermination(func(p *corev1.Pod) bool { return p.Namespace == s.Namespace })
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "w"}}
		s.Delete(deployment)
		s.AwaitAll(&pods, "the pod terminates", func() error {
			if len(pods.Items) == 1 && pods.Items[0].DeletionTimestamp != nil {
				return nil
			}
			return fmt.Errorf("%d pods", len(pods.Items))
		})
		release()
		s.AwaitAll(&pods, "the pod is gone", func() error { return none(len(pods.Items)) })
	})
})

func workloadYAML(kind, image, more string) string {
	service := ""
	if kind == "StatefulSet" {
		service = `"serviceName":"w",`
	}
	return fmt.Sprintf(
		`{"apiVersion":"apps/v1","kind":%q,"metadata":{"name":"w"},"spec":{"replicas":1,%s"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},
		"containers":[{"name":"c","image":%q,%s"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}}}`,
		kind, service, image, more)
}

func none(n int) error {
	if n > 0 {
		return fmt.Errorf("%d are left", n)
	}
	return nil
}

func says(pods []corev1.Pod, phase, reason, message string) error {
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && w.Reason == reason && string(pod.Status.Phase) == phase {
				matches, err := ContainSubstring(message).Match(w.Message)
				if matches && err == nil {
					return nil
				}
			}
		}
	}
	return fmt.Errorf("no container waits with %s and %q", reason, message)
}

func podConditions(pods []corev1.Pod) []corev1.PodCondition {
	var all []corev1.PodCondition
	for _, pod := range pods {
		all = append(all, pod.Status.Conditions...)
	}
	return all
}

func allReady(pods []corev1.Pod) error {
	ready := 0
	for _, c := range podConditions(pods) {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			ready++
		}
	}
	if ready != len(pods) || ready == 0 {
		return fmt.Errorf("%d of %d pods are ready", ready, len(pods))
	}
	return nil
}
