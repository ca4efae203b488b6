package integration

import (
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// Whoever waits for a server, by Ready or by kstatus, is never told that it is done while a pod of other content gets
// calls.
// Every state of the server is judged by the pods that stood when it was written.
var _ = Describe("No state of an MCPServer is called done", func() {
	var s *kit.Env
	var op *operator
	var server, all *kit.Recording
	BeforeEach(func() {
		s = newEnv()
		op = operate(s)
		s.RunProxies()
		server, all = s.Record(serverOf(s, "echo")), s.RecordAll(&corev1.Pod{})
	})
	AfterEach(func() {
		if !CurrentSpecReport().Failed() {
			neverDoneTooEarly(server, all)
		}
	})

	It("before its content has rolled out, through a chain of changes", func() {
		for n, image := range []string{imageOne, imageTwo, imageOne} {
			s.Apply(git, kit.Server("echo", image, "replicas: 2"))
			rolledOut(s, "echo", int64(n+1))
			ready(s, "echo")
		}
		s.Apply(git, kit.Server("echo", imageTwo, "replicas: 2"))
		s.Apply(git, kit.Server("echo", imageOne, "replicas: 3"))
		ready(s, "echo")
		backendsReady(s, 3)
	})

	It("while the new content does not become ready", func() {
		slow := "registry.example.com/slow-" + s.Namespace + ":1"
		plane.Kubelet.Image(slow, kit.NeverReady())
		s.Apply(git, kit.Server("echo", imageOne, "replicas: 2"))
		ready(s, "echo")
		s.Apply(git, kit.Server("echo", slow, "replicas: 2"))
		var pods corev1.PodList
		s.AwaitAll(&pods, "a pod of the new content runs", func() error { return hasImage(pods.Items, slow) })
		notReady(s, "echo", v1alpha1.ReasonUpdating)
		plane.Kubelet.Image(slow, kit.Runs())
		ready(s, "echo")
	})

	It("while an upgraded operator replaces the proxies, though the spec stays", func() {
		s.Apply(git, kit.Server("echo", imageOne, ""))
		ready(s, "echo")
		op.stop()
		op.start(controllers.Options{Workload: podtemplate.Release{RunnerImage: "freehold.dev/runner:next"}})
		rolledOut(s, "echo", 2)
		ready(s, "echo")
	})

	It("with a wrong image; and the right one makes it ready without anyone deleting a pod", func() {
		wrong := "registry.example.com/wrong-" + s.Namespace + ":1"
		plane.Kubelet.Image(wrong, kit.ImagePullBackOff("not found"))
		s.Apply(git, kit.Server("echo", wrong, inPlace+"\nreplicas: 2"))
		notReady(s, "echo", v1alpha1.ReasonImagePull)
		s.Apply(git, kit.Server("echo", imageOne, inPlace+"\nreplicas: 2"))
		ready(s, "echo")
		s.Apply(git, kit.Server("echo", wrong, inPlace+"\nreplicas: 2"))
		notReady(s, "echo", v1alpha1.ReasonImagePull)
		s.Apply(git, kit.Server("echo", imageTwo, inPlace+"\nreplicas: 2"))
		ready(s, "echo")
		backendsReady(s, 2)
	})
})

// neverDoneTooEarly judges every state that is called done.
func neverDoneTooEarly(server, pods *kit.Recording) {
	GinkgoHelper()
	stood, done := pods.States(), 0
	server.Check(func(state kit.State) error {
		says, err := saysDone(state)
		if err != nil || says == "" {
			return err
		}
		done++
		if wrong := otherContent(state, stood); wrong != "" {
			return fmt.Errorf("%s although %s", says, wrong)
		}
		return nil
	})
	Expect(done).To(BeNumerically(">", 0), "the server was never done, so nothing was judged")
}

// saysDone is who calls this state done, empty if nobody does.
func saysDone(state kit.State) (string, error) {
	if state.Deleted {
		return "", nil
	}
	seen := &v1alpha1.MCPServer{}
	if err := decode(state.Object, seen); err != nil {
		return "", err
	}
	c := meta.FindStatusCondition(seen.Status.Conditions, v1alpha1.ConditionReady)
	if c != nil && c.Status == "True" && c.ObservedGeneration == seen.Generation {
		return "Ready is True", nil
	}
	is, _, err := kit.Kstatus(state.Object)
	if err != nil || is != status.CurrentStatus {
		return "", err
	}
	return "kstatus says Current", nil
}

// otherContent names a pod that stood at the time of the state and does not
// carry its content, and is empty if all did and there were some.
func otherContent(state kit.State, pods []kit.State) string {
	latest := map[types.UID]kit.State{}
	for _, pod := range pods {
		if kit.Before(pod, state) {
			latest[pod.Object.GetUID()] = pod
		}
	}
	image, _, err := nested(state, "spec", "image")
	if err != nil {
		return err.Error()
	}
	serves := workload.ComponentBackend // what has lost the calls may have sessions left
	if slot, _, _ := nested(state, "status", "active", "slot"); slot == int64(workload.Slot2) {
		serves = workload.Slot2.Component()
	}
	seen := map[string]int{}
	for _, at := range latest {
		if at.Deleted || at.Object.GetDeletionTimestamp() != nil {
			continue
		}
		pod := &corev1.Pod{}
		if err := decode(at.Object, pod); err != nil {
			return err.Error()
		}
		component := pod.Labels[workload.LabelComponent]
		seen[component]++
		if component == serves && pod.Spec.Containers[0].Image != image {
			return fmt.Sprintf("backend %s runs %s and the spec says %s", pod.Name, pod.Spec.Containers[0].Image, image)
		}
		generation, _, _ := nested(state, "status", "workload", "generation")
		if component == workload.ComponentProxy && fmt.Sprint(generation) != pod.Annotations[revision.AnnotationGeneration] {
			return fmt.Sprintf("%s has workload generation %s and the status says %v", pod.Name,
				pod.Annotations[revision.AnnotationGeneration], generation)
		}
	}
	if seen[serves] == 0 || seen[workload.ComponentProxy] == 0 {
		return fmt.Sprintf("the pods are %v", seen)
	}
	return ""
}

func hasImage(pods []corev1.Pod, image string) error {
	for _, pod := range pods {
		if pod.Spec.Containers[0].Image == image {
			return nil
		}
	}
	return fmt.Errorf("no pod has image %s", image)
}
