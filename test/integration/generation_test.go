package integration

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// The number of content never goes back, whatever was lost.
var _ = Describe("The workload generation", func() {
	It("goes on from the children's where a server was made anew beside them", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		deployment, set := s.Record(proxyOf(s, "echo")), s.Record(backendOf(s, "echo"))
		s.Apply(git, server("echo", ""))
		ready(s, "echo")
		s.Apply(git, kit.Server("echo", imageTwo, ""))
		rolledOut(s, "echo", 2)
		ready(s, "echo")

		op.stop()
		old := serverOf(s, "echo")
		s.Read(old)
		s.Delete(old, client.PropagationPolicy(metav1.DeletePropagationOrphan))
		s.Await(old, "the children were orphaned", func() error {
			if old.DeletionTimestamp == nil || len(old.Finalizers) != 1 {
				return fmt.Errorf("the finalizers are %q", old.Finalizers)
			}
			return nil
		})
		s.AsController().Force(string(contract.MCPServerFinalizer), fmt.Sprintf(nothingStays, old.UID))
		s.AwaitGone(old)
		s.Apply(git, kit.Server("echo", imageTwo, ""))
		op.start(controllers.Options{})
		live := rolledOut(s, "echo", 3)
		Expect(live.UID).NotTo(Equal(old.UID))
		ready(s, "echo")
		for _, recording := range []*kit.Recording{deployment, set} {
			var last int64
			recording.Check(func(f kit.State) error {
				was := last
				var err error
				last, err = strconv.ParseInt(f.Object.GetAnnotations()[revision.AnnotationGeneration], 10, 64)
				if err == nil && last < was {
					err = fmt.Errorf("generation %d after %d", last, was)
				}
				return err
			})
		}
	})

	DescribeTable("is recovered from what a child carries, where the status was lost,", func(content string, want int64) {
		s := newEnv()
		s.Apply(git, server("echo", ""))
		live := serverOf(s, "echo")
		s.Read(live)
		options := podtemplate.Release{RunnerImage: runnerImage}
		hash := workload.Render(workload.Input{Object: live}, options).Hash
		if content == "other" {
			live.Spec.Image = imageTwo
		}
		proxy, err := workload.Render(workload.Input{Object: live}, options).Proxy(7)
		Expect(err).NotTo(HaveOccurred())
		s.Must(s.AsController().Client.Apply(s.Ctx, proxy, client.FieldOwner(string(contract.MCPServerChildren))),
			"restoring a child")

		operate(s)
		s.RunProxies()
		recovered := rolledOut(s, "echo", want)
		Expect(recovered.Status.Workload.Hash).To(Equal(hash))
		ready(s, "echo")
	},
		Entry("and kept for equal content", "equal", int64(7)),
		Entry("and raised for other content", "other", int64(8)),
	)

	DescribeTable("is not raised by what a foreign hand wrote on a child, which is said until it is deleted or set back:",
		func(apiVersion, kind, name, back string) {
			s := newEnv()
			operate(s)
			s.RunProxies()
			s.Apply(git, server("echo", ""))
			atRest(s, "echo")
			child := s.Force(intruder, fmt.Sprintf(
				`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"annotations":{%q:"999999999999999998",%q:"abc"}}}`,
				apiVersion, kind, name, revision.AnnotationGeneration, revision.AnnotationHash))
			live := notReady(s, "echo", v1alpha1.ReasonUnclaimedGeneration)
			stalled(live, v1alpha1.ReasonUnclaimedGeneration)
			Expect(readyMessage(live)).To(
				ContainSubstring(kind + " " + name + " carries 999999999999999998 as workload generation"))
			announced(s, live, corev1.EventTypeWarning, v1alpha1.ReasonUnclaimedGeneration)
			Expect(live.Status.Workload.Generation).To(Equal(int64(1)))

			if back == "" {
				s.Delete(child)
			} else {
				s.Force("kubectl", fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"annotations":{%q:"1",%q:"1"}}}`,
					apiVersion, kind, name, revision.AnnotationGeneration, "freehold.dev/break-glass-generation"))
			}
			ready(s, "echo")
			s.Apply(git, kit.Server("echo", imageTwo, ""))
			ready(s, "echo")
		},
		Entry("the proxy", "apps/v1", "Deployment", "echo-proxy", ""),
		Entry("the backend, set back behind broken glass", "apps/v1", "StatefulSet", "echo-backend", "1"),
		Entry("a Service of the backend", "v1", "Service", "echo-backend", ""),
	)

	It("comes back with its hash where another writer removed that", func() {
		s := newEnv()
		operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		atRest(s, "echo")
		for _, object := range []client.Object{
			&appsv1.Deployment{ObjectMeta: called("echo-proxy")}, &appsv1.StatefulSet{ObjectMeta: called("echo-backend")},
			&corev1.Service{ObjectMeta: called("echo-backend")}, &corev1.Service{ObjectMeta: called("echo-backend-headless")},
		} {
			s.Read(object)
			s.Patch(object, intruder, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, revision.AnnotationHash))
			s.Await(object, s.Title(object)+" has its hash again", func() error {
				if _, ok := object.GetAnnotations()[revision.AnnotationHash]; !ok {
					return fmt.Errorf("there is none")
				}
				return nil
			})
		}
		ready(s, "echo")
	})

	It("at its end leaves what runs, and begins anew with the server", func() {
		s := newEnv()
		operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		live := atRest(s, "echo")
		s.Must(s.Client.Status().Patch(s.Ctx, live, client.RawPatch("application/merge-patch+json",
			[]byte(`{"status":{"workload":{"generation":999999999999999999,"hash":"abc"}}}`))), "using the numbers up")
		said := notReady(s, "echo", v1alpha1.ReasonSpecInvalid)
		Expect(readyMessage(said)).To(
			ContainSubstring("this server has reached the highest workload generation: delete it and create it again, as " +
				"docs/policies.md describes. The last accepted content keeps running"))
		backend := backendOf(s, "echo")
		s.Read(backend)
		Expect(backend.Status.ReadyReplicas).To(Equal(int32(1)))

		s.Delete(live)
		s.AwaitGone(live)
		s.Apply(git, server("echo", ""))
		ready(s, "echo")
		rolledOut(s, "echo", 1)
	})

	It("is raised by an operator that brings another runner, which rolls the proxies alone", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		ready(s, "echo")
		backend := backendOf(s, "echo")
		s.Read(backend)
		before := backend.DeepCopy()
		op.stop()
		op.start(controllers.Options{Workload: podtemplate.Release{RunnerImage: "freehold.dev/runner:next"}})
		rolledOut(s, "echo", 2)
		ready(s, "echo")
		proxy := &appsv1.Deployment{ObjectMeta: called("echo-proxy")}
		s.Read(proxy)
		Expect(proxy.Spec.Template.Spec.Containers[0].Image).To(Equal("freehold.dev/runner:next"))
		s.Read(backend)
		Expect(backend.Annotations).To(HaveKeyWithValue(revision.AnnotationGeneration, "2"))
		Expect(backend.Generation).To(Equal(before.Generation), "its spec is as it was")
	})
})

var _ = Describe("Run configs", func() {
	It("are in the pod template where they are short, and ConfigMaps where they are not", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		proxy := proxyOf(s, "echo")
		carried := func() string {
			s.Read(proxy)
			return proxy.Spec.Template.Annotations[podtemplate.AnnotationRunConfig]
		}
		rolledOut(s, "echo", 1)
		ready(s, "echo")
		Expect(carried()).To(ContainSubstring(`"generation": 1`))
		s.Force("intruder",
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"echo-proxy"},"spec":{"template":{"metadata":{"annotations":{"freehold.dev/run-config":"{}"}}}}}`)
		s.Await(proxy, "it is as it was", func() error {
			if text := carried(); text == "{}" {
				return fmt.Errorf("it is the intruder's")
			}
			return nil
		})
		ready(s, "echo")
		quiet(op)
		Expect(op.requests.Since(0).Of("configmaps").Writes()).To(BeEmpty())

		s.Apply(git, server("echo", long))
		rolledOut(s, "echo", 2)
		ready(s, "echo")
		Expect(carried()).To(BeEmpty())
		config := runConfigOf(s, "echo")
		before := config.UID
		s.Delete(config)
		s.Await(config, "it is made again", func() error {
			if config.UID == before {
				return fmt.Errorf("it is the old one")
			}
			return nil
		})

		s.Apply(git, server("echo", ""))
		rolledOut(s, "echo", 3)
		ready(s, "echo")
		Expect(carried()).To(ContainSubstring(`"generation": 3`))
		s.AwaitGone(config)
	})

	It("go when no pod can mount them any more, and not before", func() {
		s := newEnv()
		operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", long))
		ready(s, "echo")
		first := runConfigOf(s, "echo").Name
		release := plane.Kubelet.HoldTermination(func(p *corev1.Pod) bool {
			return p.Namespace == s.Namespace && p.Labels[workload.LabelComponent] == workload.ComponentProxy
		})
		s.Apply(git, kit.Server("echo", imageTwo, long))
		rolledOut(s, "echo", 2)
		ready(s, "echo")
		Expect(s.Exists(&corev1.ConfigMap{ObjectMeta: called(first)})).To(BeTrue(), "a pod that is ending mounts it")
		release()
		s.AwaitGone(&corev1.ConfigMap{ObjectMeta: called(first)})
		Expect(runConfigOf(s, "echo").Name).To(HavePrefix("echo-run-2-"))
	})

	DescribeTable("are few while a rollout cannot end,", func(pods string, left func(good string) types.GomegaMatcher) {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", long))
		ready(s, "echo")
		good := runConfigOf(s, "echo").Name
		plane.Kubelet.Image("absent/1", kit.ImagePullBackOff("not found"))
		for i := range 8 {
			s.Apply(git, server("echo", fmt.Sprintf(
				"%s\nproxy: {publicURL: 'https://echo-%d.example.com', podTemplate: {spec: {%s}}}", long, i, pods)))
			live := serverOf(s, "echo")
			s.Await(live, "the content is claimed", func() error {
				if got, want := live.Status.Workload.Generation, int64(i)+2; got != want {
					return fmt.Errorf("workload generation %d is claimed, want %d", got, want)
				}
				return nil
			})
		}
		quiet(op) // on the way there are more
		configs := &metav1.PartialObjectMetadataList{}
		configs.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
		s.Must(s.Client.List(s.Ctx, configs, client.InNamespace(s.Namespace), client.HasLabels{workload.LabelServer}),
			"listing run configs")
		var names []string
		for i := range configs.Items {
			names = append(names, configs.Items[i].Name)
		}
		Expect(names).To(left(good), "what serves, what is to, and few more")
	},
		Entry("because a pod does not become ready", "containers: [{name: side, image: absent/1}]",
			func(good string) types.GomegaMatcher { return ConsistOf(good, HavePrefix("echo-run-9-")) }),
		Entry("because its pods are refused", "priorityClassName: absent",
			func(good string) types.GomegaMatcher {
				return And(ContainElement(good), ContainElement(HavePrefix("echo-run-9-")), HaveLen(7))
			}),
	)

	// The API server sends no data of them, and the cache keeps little more than their names.
	It("are not read, nor what looks like one", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		const n, megabyte = 20, 1000 << 10
		for i := range n {
			config := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: s.Namespace, Name: fmt.Sprintf("large-%d", i),
					Labels:      map[string]string{workload.LabelServer: "echo"},
					Annotations: map[string]string{"note": strings.Repeat("x", 200<<10)},
				},
				Data: map[string]string{"large": strings.Repeat("x", megabyte)},
			}
			s.Must(s.Client.Create(s.Ctx, config), "making a large ConfigMap")
		}
		s.Apply(git, server("echo", "args: ["+strings.Repeat(strings.Repeat("x", 100<<10)+", ", 3)+"last]"))
		ready(s, "echo")
		configs := &metav1.PartialObjectMetadataList{}
		configs.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
		Eventually(func() (int, error) {
			err := op.cache.List(s.Ctx, configs, client.InNamespace(s.Namespace))
			return len(configs.Items), err
		}).Should(Equal(n + 1))
		kept, err := json.Marshal(configs)
		Expect(err).NotTo(HaveOccurred())
		Expect(len(kept)).To(BeNumerically("<", 32<<10), "bytes that the cache holds")
		Expect(op.cache.List(s.Ctx, &corev1.ConfigMapList{})).To(HaveOccurred(), "whole ConfigMaps are cached")
	})
})

const nothingStays = "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo, uid: %q}\n"
