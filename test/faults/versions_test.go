package faults

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// A scratch v1alpha2 of MCPServer, which calls spec.suspend paused.
const (
	oldVersion, newVersion = "freehold.dev/v1alpha1", "freehold.dev/v1alpha2"
	oldField, newField     = "suspend", "paused"
	definition             = "mcpservers.freehold.dev"
)

// The API server keeps of each entry of managedFields the version in which its manager wrote, and compares in that
// version. So the operator goes on in v1alpha1 while others write another version, and whichever of the two is stored.
var _ = It("A server that others write in another version keeps each manager's fields", func() {
	atLength()
	s := newEnv()
	op := operate(s)
	s.RunProxies()
	echo := newLife(s, "echo")
	echo.create()
	echo.grown()
	op.rests()
	before, labels := entries(s, echo), 0

	serve(s)
	Expect(readAs(s, echo, newVersion).Object["spec"]).NotTo(HaveKey(oldField))
	Expect(entries(s, echo)).To(Equal(before), "by being served in another version")

	// Git moves to it with a change; what it stated before is one statement with that.
	echo.insist("moving Git", func() error {
		_, err := s.ApplyErr(git, fmt.Sprintf("apiVersion: %s\nkind: MCPServer\nmetadata: {name: echo}\nspec: {image: %s, "+
			"replicas: 1, proxy: {replicas: 1}, %s: true}\n",
			newVersion, echo.wants.image, newField))
		return err
	})
	stops(s, echo)
	after := entries(s, echo)
	Expect(after[git]).To(And(HavePrefix(newVersion), ContainSubstring("f:"+newField),
		Not(ContainSubstring("f:"+oldField))))
	for _, manager := range []string{
		auditor, scanner, string(contract.MCPServerFinalizer),
		string(contract.MCPServerWorkload), string(contract.MCPServerAddress),
	} {
		Expect(after[manager]).To(Equal(before[manager]), "what %s owns", manager)
	}
	// In either version somebody else is told who has it, by the name that it has in the version of whoever has it.
	for _, v := range [][2]string{{oldVersion, oldField}, {newVersion, newField}} {
		_, err := s.ApplyErr("neighbour",
			"apiVersion: "+v[0]+"\nkind: MCPServer\nmetadata: {name: echo}\nspec: {"+v[1]+": false}\n")
		Expect(err).To(MatchError(And(ContainSubstring(git), ContainSubstring(".spec."+newField))))
	}

	// The other version is stored from now on: what each owns stays, and no pass writes.
	store(s, newVersion)
	op.rests()
	before = entries(s, echo)
	mark := op.requests.Mark()
	Eventually(func() string {
		labels++
		_, err := s.ApplyErr("labeller",
			fmt.Sprintf("apiVersion: %s\nkind: MCPServer\nmetadata: {name: echo, labels: {seen: \"%d\"}}\n", newVersion, labels))
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		return stored(s, echo)
	}).Should(Equal(newVersion))
	op.rests()
	after = entries(s, echo)
	delete(after, "labeller")
	Expect(after).To(Equal(before), "by being stored in another version")
	Expect(op.requests.Since(mark).In(s.Namespace).Writes()).To(BeEmpty())

	// Git goes back. The field that it states no more goes with its last owner.
	echo.insist("moving Git back", echo.spec)
	Expect(readAs(s, echo, newVersion).Object["spec"]).NotTo(HaveKey(newField))
	echo.converged()
	echo.remove()
	echo.ended()
})

// stops waits until the server says that it is suspended.
func stops(s *kit.Env, l *life) {
	GinkgoHelper()
	server := l.server()
	s.Await(server, "it is suspended", func() error {
		if !meta.IsStatusConditionTrue(server.Status.Conditions, v1alpha1.ConditionSuspended) || !server.Spec.Suspend {
			return fmt.Errorf("suspend is %t, and it says %+v", server.Spec.Suspend, server.Status.Conditions)
		}
		return nil
	})
}

func readAs(s *kit.Env, l *life, version string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(version)
	object.SetKind("MCPServer")
	l.insist("reading as "+version, func() error {
		return s.Client.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: l.name}, object)
	})
	return object
}

// entries are the fields of each manager, after the version that it wrote in.
func entries(s *kit.Env, l *life) map[string]string {
	GinkgoHelper()
	fields := map[string]string{}
	for _, e := range readAs(s, l, oldVersion).GetManagedFields() {
		fields[e.Manager] += e.APIVersion + " " + e.Subresource + " " + e.FieldsV1.GetRawString()
	}
	return fields
}

// serve has the API server serve MCPServers in the scratch version as well, until the story ends.
func serve(s *kit.Env) {
	GinkgoHelper()
	webhook := httptest.NewTLSServer(http.HandlerFunc(converts))
	DeferCleanup(webhook.Close)
	var one []any
	s.Redefine(definition, func(d *unstructured.Unstructured) {
		one, _, _ = unstructured.NestedSlice(d.Object, "spec", "versions")
		Expect(one).To(HaveLen(1))
		next := runtime.DeepCopyJSON(one[0].(map[string]any))
		next["name"], next["storage"] = "v1alpha2", false
		path := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties"}
		properties, _, _ := unstructured.NestedMap(next, path...)
		properties[newField] = properties[oldField]
		delete(properties, oldField)
		Expect(unstructured.SetNestedMap(next, properties, path...)).To(Succeed())
		Expect(unstructured.SetNestedSlice(d.Object, append(slices.Clone(one), next), "spec", "versions")).To(Succeed())
		Expect(unstructured.SetNestedMap(d.Object, map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"},
			"clientConfig": map[string]any{
				"url": webhook.URL,
				"caBundle": base64.StdEncoding.EncodeToString(
					pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw})),
			},
		}}, "spec", "conversion")).To(Succeed())
	})
	DeferCleanup(func() {
		// Nothing is left that was stored in the scratch version: the story removed its server.
		store(s, oldVersion)
		d := s.Definition(definition)
		Expect(unstructured.SetNestedStringSlice(d.Object, []string{"v1alpha1"}, "status", "storedVersions")).To(Succeed())
		Expect(s.Client.Status().Update(s.Ctx, d)).To(Succeed())
		s.Redefine(definition, func(d *unstructured.Unstructured) {
			Expect(unstructured.SetNestedSlice(d.Object, one, "spec", "versions")).To(Succeed())
			Expect(unstructured.SetNestedMap(d.Object, map[string]any{"strategy": "None"}, "spec", "conversion")).To(Succeed())
		})
		Eventually(func() error { return list(s, newVersion) }).ShouldNot(Succeed(), "v1alpha2 is served no more")
		Eventually(func() error { return list(s, oldVersion) }).Should(Succeed())
	})
	Eventually(func() error { return list(s, newVersion) }).Should(Succeed(), "v1alpha2 is served")
}

func list(s *kit.Env, version string) error {
	all := &unstructured.UnstructuredList{}
	all.SetAPIVersion(version)
	all.SetKind("MCPServerList")
	return s.Client.List(s.Ctx, all, client.InNamespace(s.Namespace))
}

// store has MCPServers stored in a version once they are written.
func store(s *kit.Env, version string) {
	GinkgoHelper()
	s.Redefine(definition, func(d *unstructured.Unstructured) {
		versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
		for _, v := range versions {
			v.(map[string]any)["storage"] = "freehold.dev/"+v.(map[string]any)["name"].(string) == version
		}
		Expect(unstructured.SetNestedSlice(d.Object, versions, "spec", "versions")).To(Succeed())
	})
}

// stored is the version in which etcd has a server.
func stored(s *kit.Env, l *life) string {
	GinkgoHelper()
	var answer struct{ Kvs []struct{ Value []byte } }
	ask(s, "/v3/kv/range", map[string]any{
		"key": []byte("/registry/freehold.dev/mcpservers/" + s.Namespace + "/" + l.name),
	}, &answer)
	Expect(answer.Kvs).To(HaveLen(1))
	var object metav1.TypeMeta
	Expect(json.Unmarshal(answer.Kvs[0].Value, &object)).To(Succeed())
	return object.APIVersion
}

// converts is a conversion webhook
// (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#webhook-conversion).
func converts(w http.ResponseWriter, req *http.Request) {
	var review struct {
		metav1.TypeMeta `json:",inline"`
		Request         *struct {
			UID     string           `json:"uid"`
			Version string           `json:"desiredAPIVersion"`
			Objects []map[string]any `json:"objects"`
		} `json:"request,omitempty"`
		Response any `json:"response,omitempty"`
	}
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	from, to := oldField, newField
	if review.Request.Version == oldVersion {
		from, to = newField, oldField
	}
	for _, o := range review.Request.Objects {
		o["apiVersion"] = review.Request.Version
		if spec, ok := o["spec"].(map[string]any); ok {
			if value, stated := spec[from]; stated {
				spec[to] = value
				delete(spec, from)
			}
		}
	}
	review.Response = map[string]any{
		"uid": review.Request.UID, "result": map[string]any{"status": metav1.StatusSuccess},
		"convertedObjects": review.Request.Objects,
	}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review) // the API server sees that
}
