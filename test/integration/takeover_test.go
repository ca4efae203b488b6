package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// children are the objects of echo as Freehold makes them, without an owner and
// handed over: what a backup has of them. The runner's are the last three.
func children(s *kit.Env) []*unstructured.Unstructured {
	GinkgoHelper()
	server := serverOf(s, "echo")
	s.Read(server)
	options := podtemplate.Release{RunnerImage: runnerImage}
	rendered := workload.Render(workload.Input{Object: server}, options)
	Expect(rendered.Problems).To(BeEmpty())
	run := rendered.Claimed(1)
	owner := workload.OwnerOf(server)
	Expect(rendered.Short()).To(BeTrue())
	proxy, err := rendered.Proxy(1)
	Expect(err).NotTo(HaveOccurred())
	backend, err := workload.Backend(run, workload.Slot1)
	Expect(err).NotTo(HaveOccurred())
	var all []*unstructured.Unstructured
	for _, ac := range []runtime.ApplyConfiguration{
		workload.ServiceAccount(owner), workload.Role(owner), workload.RoleBinding(owner),
		workload.ProxyService(owner, server.Spec.Proxy), proxy,
		workload.BackendService(run, workload.Slot1), workload.HeadlessService(run, workload.Slot1), backend,
	} {
		text, err := json.Marshal(ac)
		Expect(err).NotTo(HaveOccurred())
		object := s.Intent(string(text))
		object.SetOwnerReferences(nil)
		annotated(object, contract.AdoptAnnotation, "true")
		all = append(all, object)
	}
	return all
}

func annotated(object *unstructured.Unstructured, key, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}

// byOperator creates an object without our labels, so that no cache of ours has it.
func byOperator(s *kit.Env, object *unstructured.Unstructured) {
	GinkgoHelper()
	object.SetLabels(map[string]string{"example.com/team": "red"})
	s.Must(s.Client.Create(s.Ctx, object, client.FieldOwner("other-operator")), "creating "+s.Title(object))
}

// unmarked makes a Deployment or StatefulSet what somebody has who knows nothing
// of Freehold: equal containers without a mark, and one more beside them.
func unmarked(object *unstructured.Unstructured) {
	GinkgoHelper()
	object.SetAnnotations(map[string]string{contract.AdoptAnnotation: "true"})
	unstructured.RemoveNestedField(object.Object, "spec", "template", "metadata", "annotations")
	Expect(unstructured.SetNestedField(object.Object, "red", "spec", "template", "metadata", "labels",
		"example.com/team")).To(Succeed())
	containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	Expect(err).NotTo(HaveOccurred())
	containers = append(containers, map[string]any{
		"name": "logger", "image": "registry.example.com/logger:1",
		"securityContext": containers[0].(map[string]any)["securityContext"],
	})
	Expect(unstructured.SetNestedSlice(object.Object, containers, "spec", "template", "spec", "containers")).To(Succeed())
}

// revisions is how many revisions of its pods a Deployment or StatefulSet has had.
func revisions(s *kit.Env, of client.Object) (had int) {
	GinkgoHelper()
	var sets appsv1.ReplicaSetList
	var stored appsv1.ControllerRevisionList
	s.Must(errors.Join(s.Client.List(s.Ctx, &sets, client.InNamespace(s.Namespace)),
		s.Client.List(s.Ctx, &stored, client.InNamespace(s.Namespace))), "listing")
	for _, set := range sets.Items {
		if metav1.IsControlledBy(&set, of) {
			had++
		}
	}
	for _, revision := range stored.Items {
		if metav1.IsControlledBy(&revision, of) {
			had++
		}
	}
	return had
}

// restarts is what a restart of a pod of echo would change.
func restarts(s *kit.Env) map[string]string {
	GinkgoHelper()
	found := map[string]string{}
	for kind, name := range map[string]string{"Deployment": "echo-proxy", "StatefulSet": "echo-backend"} {
		pods := s.Intent(fmt.Sprintf(`{"apiVersion":"apps/v1","kind":%q,"metadata":{"name":%q}}`, kind, name))
		s.Await(pods, name+" has rolled out", current(pods))
		revision, _, err := unstructured.NestedString(pods.Object, "status", "updateRevision")
		Expect(err).NotTo(HaveOccurred())
		found[kind] = fmt.Sprint(pods.GetGeneration(), revision)
	}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &appsv1.ReplicaSetList{}} {
		s.Must(s.Client.List(s.Ctx, list, client.InNamespace(s.Namespace)), "listing")
		s.Must(meta.EachListItem(list, func(o runtime.Object) error {
			found[o.(client.Object).GetName()] = string(o.(client.Object).GetUID())
			return nil
		}), "reading a list")
	}
	return found
}

// sound expects that the contract has nothing against who holds what.
func sound(s *kit.Env, object *unstructured.Unstructured) {
	GinkgoHelper()
	live := object.DeepCopy()
	s.Await(live, "nobody holds what is ours alone", func() error {
		holdings, err := contract.Freehold().
			Judge(live.GroupVersionKind().GroupKind(), live.GetName(), live.GetManagedFields())
		for _, h := range holdings {
			if h.Verdict.Wrong() {
				err = errors.Join(err, fmt.Errorf("%s of %s %s is %s", ownership.Notation(h.Field), h.Manager, h.Operation,
					h.Verdict))
			}
		}
		return err
	})
}

// unreported is an object without what kube-controller-manager says of it.
func unreported(object *unstructured.Unstructured) map[string]any {
	u := object.DeepCopy()
	u.SetManagedFields(slices.DeleteFunc(u.GetManagedFields(),
		func(e metav1.ManagedFieldsEntry) bool { return e.Subresource == "status" }))
	u.SetResourceVersion("")
	annotations := u.GetAnnotations()
	delete(annotations, "deployment.kubernetes.io/revision")
	u.SetAnnotations(annotations)
	delete(u.Object, "status")
	return u.Object
}

var _ = Describe("A server whose objects stand in another hand", func() {
	It("is taken over whole where they are handed over, and no pod restarts", func() {
		s := newEnv()
		s.Apply(git, server("echo", "args: [a]"))
		all := children(s)
		for _, object := range all {
			byOperator(s, object)
		}
		before := restarts(s)
		op := operate(s)
		s.RunProxies()
		live := atRest(s, "echo")
		Expect(restarts(s)).To(Equal(before))
		for _, object := range all {
			sound(s, object)
		}
		announced(s, live, corev1.EventTypeNormal, "FieldsTakenOver")
		patches := op.requests.Since(0).In(s.Namespace).
			Where(func(r kit.Request) bool { return r.Verb == "patch" && r.Resource != "events" })
		Expect(len(patches)).To(BeNumerically("<=", 7), "one for each object and manager of the operator:\n%s", patches)

		s.Apply(git, server("echo", inPlace))
		rolledOut(s, "echo", 2)
		backend := backendOf(s, "echo")
		s.Await(backend, "what is not stated is gone", func() error {
			if args := template(backend).Spec.Containers[0].Args; len(args) > 0 {
				return fmt.Errorf("the args are %s", args)
			}
			return nil
		})
		ready(s, "echo")
		s.Owns(backend, "other-operator", "metadata.annotations")
	})

	It("rolls once for the mark alone where it was never Freehold's, and keeps what others put into its pods", func() {
		s := newEnv()
		s.Apply(git, server("echo", ""))
		for _, object := range children(s) {
			if kind := object.GetKind(); kind == "Deployment" || kind == "StatefulSet" {
				unmarked(object)
			}
			byOperator(s, object)
		}
		before := restarts(s)
		op := operate(s)
		s.RunProxies()
		live := atRest(s, "echo")
		Expect(meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionForeignPodContent)).To(
			HaveField("Message", ContainSubstring("logger")))
		after := restarts(s)
		for name, uid := range before {
			if after[name] == uid {
				Expect(name).To(HavePrefix("echo-proxy-"), "only the old ReplicaSet may stay")
			}
		}
		for _, taken := range []client.Object{proxyOf(s, "echo"), backendOf(s, "echo")} {
			s.Read(taken)
			pods := template(taken)
			Expect(taken.GetGeneration()).To(Equal(int64(2)), "one write changed it: the mark")
			Expect(pods.Annotations).To(Or(HaveKeyWithValue(revision.AnnotationGeneration, "1"),
				HaveKey(workload.AnnotationBackendHash)))
			Expect([]string{taken.GetLabels()["example.com/team"], pods.Labels["example.com/team"]}).To(HaveEach("red"))
			s.Owns(taken, "other-operator", `metadata.labels["example.com/team"]`,
				`spec.template.metadata.labels["example.com/team"]`,
				"spec.template.spec.containers[name=logger].image")
			sound(s, s.Unstructured(taken))
			Expect(revisions(s, taken)).To(Equal(2), "revisions of "+s.Title(taken))
		}
		var pods corev1.PodList
		s.AwaitAll(&pods, "no pod of the old content is left", func() error {
			for _, pod := range pods.Items {
				marked := pod.Annotations[revision.AnnotationGeneration] == "1" ||
					pod.Annotations[workload.AnnotationBackendHash] != ""
				if !marked || len(pod.Spec.Containers) != 2 {
					return fmt.Errorf("%s has the annotations %v", pod.Name, pod.Annotations)
				}
			}
			return nil
		})
		op.restart()
		ready(s, "echo")
		Expect(restarts(s)).To(Equal(after))
	})

	DescribeTable("is left alone until it is handed over:", func(metadata string) {
		s := newEnv()
		s.Apply(git, server("echo", ""))
		service := s.Apply("somebody",
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"echo-proxy",`+metadata+
				`},"spec":{"ports":[{"name":"old","port":80}]}}`)
		operate(s)
		s.RunProxies()
		live := notReady(s, "echo", v1alpha1.ReasonNameTaken)
		Expect(readyMessage(live)).To(ContainSubstring(`annotate the object with freehold.dev/adopt=true to hand it over`))
		Expect(s.Unstructured(service).GetResourceVersion()).To(Equal(service.GetResourceVersion()))

		s.Patch(service, "kubectl-annotate", `{"metadata":{"annotations":{"freehold.dev/adopt":"true"}}}`)
		s.Apply(git, server("echo", "args: [b]")) // whoever hands over may wait a minute, or touch the server
		ready(s, "echo")
		sound(s, service)
		s.Owns(service, "somebody", "metadata.labels.team")
		// Its own port stays beside ours: an item of a list is whose it is.
		s.Owns(service, "somebody", "spec.ports[port=80,protocol=TCP]")
	},
		Entry("a Service", `"labels":{"team":"red"}`),
		Entry("one of which the cache keeps little",
			`"labels":{"team":"red","freehold.dev/server":"echo"},"annotations":{"note":"`+strings.Repeat("x", 40<<10)+`"}`),
	)

	It("is taken over whole or not at all, and all that stands in the way is told at once", func() {
		s := newEnv()
		s.Apply(git, server("echo", ""))
		all := children(s)
		role, service, proxy, backend := all[1], all[3], all[4], all[7]
		role.SetAnnotations(nil)
		Expect(unstructured.SetNestedField(service.Object, "mine", "spec", "selector", "app")).To(Succeed())
		Expect(unstructured.SetNestedField(service.Object, "NodePort", "spec", "type")).To(Succeed())
		for _, object := range []*unstructured.Unstructured{proxy, backend} {
			reselected(s, object)
			Expect(unstructured.SetNestedField(object.Object, int64(0), "spec", "replicas")).To(Succeed())
		}
		for _, object := range []*unstructured.Unstructured{role, service, proxy, backend} {
			byOperator(s, object)
		}
		operate(s)
		s.RunProxies()
		live := notReady(s, "echo", v1alpha1.ReasonNotAdoptable)
		Expect(readyMessage(live)).To(
			And(ContainSubstring("Role "+s.Namespace+"/echo-runner"), ContainSubstring("Deployment "+s.Namespace+"/echo-proxy"),
				ContainSubstring("StatefulSet "+s.Namespace+"/echo-backend"), Not(ContainSubstring("Service ")),
				ContainSubstring("took over none")))
		for _, object := range []*unstructured.Unstructured{role, service, proxy, backend} {
			Expect(unreported(s.Unstructured(object))).To(Equal(unreported(object)))
		}

		By("leaving what only the runner could take over")
		s.Delete(proxy)
		s.AwaitGone(proxy)
		s.Patch(role, "kubectl-annotate", `{"metadata":{"annotations":{"freehold.dev/adopt":"true"}}}`)
		s.Apply(git, server("echo", "args: [a]"))
		s.Await(live, "only the backend is left", func() error {
			message := readyMessage(live)
			return equal(strings.Contains(message, "echo-backend") && !strings.Contains(message, "Role "), true)
		})
		Expect(s.Unstructured(service).GetResourceVersion()).To(Equal(service.GetResourceVersion()))

		s.Delete(backend)
		s.AwaitGone(backend)
		s.Apply(git, server("echo", "args: [b]"))
		ready(s, "echo")
		sound(s, service)
	})

	It("keeps its backend whole where a Service of it is not handed over", func() {
		s := newEnv()
		s.Apply(git, server("echo", ""))
		all := children(s)
		service, backend := all[5], all[7]
		service.SetAnnotations(nil)
		backend.SetAnnotations(map[string]string{contract.AdoptAnnotation: "true"})
		Expect(unstructured.SetNestedField(service.Object, "mine", "spec", "selector", "app")).To(Succeed())
		Expect(unstructured.SetNestedField(backend.Object, int64(0), "spec", "replicas")).To(Succeed())
		byOperator(s, service)
		byOperator(s, backend)
		operate(s)
		s.RunProxies()
		live := notReady(s, "echo", v1alpha1.ReasonNameTaken)
		Expect(readyMessage(live)).To(
			And(ContainSubstring("Service "+s.Namespace+"/"+service.GetName()), Not(ContainSubstring("StatefulSet "))))
		for _, object := range []*unstructured.Unstructured{service, backend} {
			Expect(unreported(s.Unstructured(object))).To(Equal(unreported(object)))
		}

		s.Patch(service, "kubectl-annotate", `{"metadata":{"annotations":{"freehold.dev/adopt":"true"}}}`)
		ready(s, "echo")
		sound(s, service)
		sound(s, backend)
	})

	It("takes what a reset of managedFields gave to nobody, so that what the user drops goes", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", "args: [a]\nenv: [{name: A, value: a}]"))
		live := atRest(s, "echo")
		all := append(children(s), s.Unstructured(live))
		op.stop() // so that the runner is the first to write the server, which is to its status
		for _, object := range all {
			s.Patch(object, "editor", `{"metadata":{"managedFields":[{}]}}`)
		}
		s.Await(live, "the runner has reported", func() error { return equal(len(live.ManagedFields) > 0, true) })
		op.restart()
		announced(s, live, corev1.EventTypeNormal, "FieldsTakenOver")
		for _, object := range all {
			s.Await(object, "it is ours again", func() error {
				for _, entry := range object.GetManagedFields() {
					if ownership.IsReset(entry) {
						return fmt.Errorf("nobody has %s", entry.FieldsV1.GetRawString())
					}
				}
				return equal(len(object.GetManagedFields()) > 0, true)
			})
			sound(s, object)
		}
		s.Apply(git, server("echo", "args: [a]\nenv: [{name: A, value: a}]"))
		s.Apply(git, server("echo", inPlace))
		rolledOut(s, "echo", 2)
		atRest(s, "echo")
		backend := backendOf(s, "echo")
		s.Read(backend)
		Expect(backend.Spec.Template.Spec.Containers[0].Args).To(BeEmpty())
		Expect(backend.Spec.Template.Spec.Containers[0].Env).To(BeEmpty())
		s.Delete(live)
		s.AwaitGone(live)
	})
})

func reselected(_ *kit.Env, object *unstructured.Unstructured) {
	GinkgoHelper()
	for _, path := range [][]string{
		{"spec", "selector", "matchLabels", "a"},
		{"spec", "template", "metadata", "labels", "a"},
	} {
		Expect(unstructured.SetNestedField(object.Object, "b", path...)).To(Succeed())
	}
}
