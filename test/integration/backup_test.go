package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/test/kit"
)

// saved are the kinds of a namespace in the order in which Velero restores them: some first, the rest by name
// (https://velero.io/docs/v1.17/restore-reference/#restore-order).
var saved = []schema.GroupVersionKind{
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Version: "v1", Kind: "Secret"},
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "Pod"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "apps", Version: "v1", Kind: "ControllerRevision"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "freehold.dev", Version: "v1alpha1", Kind: "MCPAuthzConfig"},
	{Group: "freehold.dev", Version: "v1alpha1", Kind: "MCPOIDCConfig"},
	{Group: "freehold.dev", Version: "v1alpha1", Kind: "MCPRemoteProxy"},
	{Group: "freehold.dev", Version: "v1alpha1", Kind: "MCPServer"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Version: "v1", Kind: "Service"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
}

// A tool that restores gives objects other uids and no status. What each does beyond that is in its entry.
var _ = DescribeTable("A namespace that is lost comes back from a backup", func(by tool) {
	s := newEnv()
	op := operate(s)
	r := s.RunProxies()
	s.Apply(git, "{apiVersion: v1, kind: Secret, metadata: {name: token}, stringData: {token: secret}}")
	s.Apply(git, policies("company", permitAll))
	s.Apply(git, server("echo", claimed+
		"env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: token, key: token}}}]\nauthzConfigRef: {name: company}"))
	s.Apply(git, server("other", "proxy: {replicas: 2}"))
	atRest(s, "echo")
	ready(s, "other")
	s.Apply(git, server("other", "args: [again]\nproxy: {replicas: 2}"))
	rolledOut(s, "other", 2)
	atRest(s, "other")
	quiet(op)
	backup, key := everything(s), keyOf(s)
	Expect(key).NotTo(BeEmpty())
	lose(s, backup)

	old := map[apitypes.UID]bool{}
	for _, object := range backup {
		old[object.GetUID()] = true
	}
	for _, take := range by.takes {
		for _, object := range backup {
			if take(object) {
				by.restore(s, object)
			}
		}
	}
	for _, name := range []string{"echo", "other"} {
		atRest(s, name)
	}
	// The garbage collector comes when it comes.
	Eventually(func() error {
		for _, object := range everything(s) {
			for _, owner := range object.GetOwnerReferences() {
				if old[owner.UID] {
					return fmt.Errorf("%s %s is owned by %s of the old namespace", object.GetKind(), object.GetName(), owner.Name)
				}
			}
		}
		if keyOf(s) == "" {
			return errors.New("there is no key of session ids")
		}
		return nil
	}).WithPolling(slowly).Should(Succeed())
	for _, name := range []string{"echo", "other"} {
		atRest(s, name)
	}
	Expect(keyOf(s)).NotTo(Equal(key), "sessions have the key of before")
	if generation := ready(s, "other").Status.Workload.Generation; by.number != nil {
		Expect(generation).To(by.number)
	}
	quiet(op)
	before := s.Versions()
	op.restart()
	r.Again()
	quiet(op)
	s.NothingMoved(before)
	for _, name := range []string{"echo", "other"} {
		ready(s, name)
		s.Delete(serverOf(s, name))
	}
	for _, name := range []string{"echo", "other"} {
		s.AwaitGone(serverOf(s, name))
	}
	leavesNothing(s)
},
	Entry("by Velero, as docs/how-to/backup.md says", tool{takes: ofThePage(), velero: true, number: BeEquivalentTo(1)}),
	Entry("by Velero, of everything at once", tool{takes: all(), velero: true, number: BeNumerically(">", 2)}),
	Entry("by a tool that keeps owners, of everything at once", tool{takes: all()}),
)

// Velero restores into another namespace too (--namespace-mappings), as where a team tries its backup beside what runs.
var _ = It("A namespace comes back under another name, beside the first", func() {
	s := newEnv()
	there := s.On(s.NewNamespace())
	op := operate(s, there.Namespace)
	s.RunProxies(there.Namespace)
	s.Apply(git, fmt.Sprintf(login(""), 60))
	s.Apply(git, server("echo", claimed+"oidcConfigRef: {name: company}"))
	first := atRest(s, "echo")
	quiet(op)
	backup, stands := everything(s), s.Versions()

	for _, object := range backup {
		tool{velero: true}.restore(there, object)
	}
	again := atRest(there, "echo")
	Expect(again.Status.URL).To(Equal(strings.ReplaceAll(first.Status.URL, s.Namespace, there.Namespace)))
	Expect(again.UID).NotTo(Equal(first.UID))
	Eventually(func() []string { return naming(there, s.Namespace) }).WithPolling(slowly).
		Should(BeEmpty(), "what still names the namespace of before")
	run := runConfigIn(there, proxyOf(there, "echo"))
	Expect(run.Proxy.Authentication.Audiences).To(Equal([]string{again.Status.URL}))
	Expect(run.Server.Namespace).To(Equal(there.Namespace))
	quiet(op)
	s.NothingMoved(stands)

	there.Delete(serverOf(there, "echo"))
	there.AwaitGone(serverOf(there, "echo"))
	leavesNothing(there)
	quiet(op)
	s.NothingMoved(stands)
})

// slowly is how often everything of a namespace is read, which takes seventeen lists.
const slowly = time.Second / 2

// naming are the objects of s that name a namespace, but for what a Deployment and a
// StatefulSet keep of their earlier templates.
func naming(s *kit.Env, namespace string) (found []string) {
	GinkgoHelper()
	for _, object := range everything(s) {
		if kind := object.GetKind(); kind == "ReplicaSet" || kind == "ControllerRevision" {
			continue
		}
		object.SetManagedFields(nil)
		text, err := object.MarshalJSON()
		s.Must(err, "writing "+s.Title(object))
		if strings.Contains(string(text), namespace) {
			found = append(found, s.Title(object))
		}
	}
	return found
}

// tool is what restores: in which order it takes what, whether as Velero does, and the workload generation, which was
// 2. That is nil where it hangs on when the garbage collector comes.
type tool struct {
	takes  []func(*unstructured.Unstructured) bool
	velero bool
	number types.GomegaMatcher
}

func all() []func(*unstructured.Unstructured) bool {
	return []func(*unstructured.Unstructured) bool{func(*unstructured.Unstructured) bool { return true }}
}

// ofThePage reads what docs/how-to/backup.md has Velero restore, a function for each command.
func ofThePage() (takes []func(*unstructured.Unstructured) bool) {
	page, err := os.ReadFile("../../docs/how-to/backup.md")
	if err != nil {
		panic(err)
	}
	for _, command := range regexp.MustCompile("(?m)^velero restore create .*$").FindAllString(string(page), -1) {
		option := func(name string) string {
			_, after, _ := strings.Cut(command, " --"+name+" ")
			value, _, _ := strings.Cut(after, " --")
			return strings.Trim(value, "' ")
		}
		selector, err := labels.Parse(option("selector"))
		if err != nil {
			panic(err)
		}
		kinds := option("include-resources")
		takes = append(takes, func(o *unstructured.Unstructured) bool {
			plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
			return selector.Matches(labels.Set(o.GetLabels())) &&
				(kinds == "" || slices.Contains(strings.Split(kinds, ","), plural.GroupResource().String()))
		})
	}
	return takes
}

// lose deletes the namespace with all that is in it, and makes it again.
func lose(s *kit.Env, backup []*unstructured.Unstructured) {
	GinkgoHelper()
	namespace := &corev1.Namespace{}
	s.Must(s.Client.Get(s.Ctx, client.ObjectKey{Name: s.Namespace}, namespace), "reading the namespace")
	for _, object := range backup {
		unprotected(s, object)
	}
	s.Must(s.Client.Delete(s.Ctx, namespace.DeepCopy()), "deleting the namespace")
	s.On("").AwaitGone(namespace.DeepCopy())
	s.Must(s.Client.Create(s.Ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: s.Namespace, Labels: namespace.Labels},
	}), "making the namespace again")
	account := &corev1.ServiceAccount{ObjectMeta: called("default")}
	s.Await(account, "the namespace takes pods", func() error {
		if account.UID == "" {
			return errors.New("there is no ServiceAccount yet")
		}
		return nil
	})
}

// everything are the objects of the namespace in the order in which they are restored.
func everything(s *kit.Env) []*unstructured.Unstructured {
	GinkgoHelper()
	var all []*unstructured.Unstructured
	for _, kind := range saved {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		s.Must(s.Client.List(s.Ctx, list, client.InNamespace(s.Namespace)), "listing "+kind.Kind)
		for i := range list.Items {
			if list.Items[i].GetName() != "kube-root-ca.crt" {
				all = append(all, &list.Items[i])
			}
		}
	}
	return all
}

// restore creates an object in the namespace of s, without what the API server fills in and without status. Velero
// leaves the owners out too, gives RoleBindings the subjects of the new namespace, and puts managedFields back in a
// second write (https://github.com/vmware-tanzu/velero/blob/main/pkg/restore/restore.go). The other tool keeps owners,
// and leaves managedFields and Freehold's finalizers out.
func (t tool) restore(s *kit.Env, from *unstructured.Unstructured) {
	GinkgoHelper()
	object := from.DeepCopy()
	metadata, _ := object.Object["metadata"].(map[string]any)
	for _, field := range []string{
		"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields", "selfLink", "generateName",
	} {
		delete(metadata, field)
	}
	if t.velero {
		delete(metadata, "ownerReferences")
	} else {
		object.SetFinalizers(slices.DeleteFunc(object.GetFinalizers(),
			func(name string) bool { return strings.HasPrefix(name, "freehold.dev/") }))
	}
	delete(object.Object, "status")
	object.SetNamespace(s.Namespace)
	for _, subject := range subjects(object) {
		if of, is := subject.(map[string]any); is && of["namespace"] == from.GetNamespace() {
			of["namespace"] = s.Namespace
		}
	}
	object.SetLabels(labels.Merge(object.GetLabels(),
		labels.Set{"velero.io/backup-name": "mcp", "velero.io/restore-name": "mcp"}))
	if spec, is := object.Object["spec"].(map[string]any); is && object.GetKind() == "Service" &&
		spec["clusterIP"] != corev1.ClusterIPNone {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	} else if is && object.GetKind() == "Pod" {
		delete(spec, "nodeName")
	}
	switch err := s.Client.Create(s.Ctx, object, client.FieldOwner("velero-server")); {
	case apierrors.IsAlreadyExists(err): // what is there already stays
		return
	case object.GetKind() == "Pod" && apierrors.IsForbidden(err): // its ServiceAccount belonged to what is lost
		return
	default:
		s.Must(err, "restoring "+s.Title(object))
	}
	if !t.velero {
		return
	}
	merge, err := json.Marshal(map[string]any{"metadata": map[string]any{"managedFields": from.GetManagedFields()}})
	s.Must(err, "writing managedFields")
	s.Must(client.IgnoreNotFound(s.Client.Patch(s.Ctx, object, client.RawPatch(apitypes.MergePatchType, merge),
		client.FieldOwner("velero-server"))), "restoring managedFields of "+s.Title(object))
}

func subjects(object *unstructured.Unstructured) []any {
	of, _, _ := unstructured.NestedFieldNoCopy(object.Object, "subjects")
	all, _ := of.([]any)
	return all
}

// unprotected lets go of a claim, which no controller of this plane does.
func unprotected(s *kit.Env, object *unstructured.Unstructured) {
	GinkgoHelper()
	if object.GetKind() == "PersistentVolumeClaim" {
		s.Must(client.IgnoreNotFound(s.Client.Patch(s.Ctx, object.DeepCopy(),
			client.RawPatch(apitypes.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))), "letting go of a claim")
	}
}

// keyOf is the key of session ids of echo, empty where there is none.
func keyOf(s *kit.Env) string {
	GinkgoHelper()
	server := serverOf(s, "echo")
	s.Read(server)
	if server.Status.Workload == nil {
		return ""
	}
	secret := &corev1.Secret{ObjectMeta: called(server.Status.Workload.SessionSecret)}
	if !s.Exists(secret) {
		return ""
	}
	var keys []string
	for name, key := range secret.Data {
		keys = append(keys, name+"="+string(key))
	}
	slices.Sort(keys)
	return strings.Join(keys, ",")
}
