package integration

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// born has one minimal object of each kind that is born by apply. The mark %s
// is where metadata goes on.
var born = map[string]string{
	"ServiceAccount": `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"b"%s}}`,
	"ConfigMap":      `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"%s},"data":{"a":"b"}}`,
	"Secret":         `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"b"%s},"data":{"a":"Yg=="}}`,
	"Service":        `{"apiVersion":"v1","kind":"Service","metadata":{"name":"b"%s},"spec":{"selector":{"a":"b"},"ports":[{"port":80}]}}`,
	"Role":           `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"b"%s},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`,
	"RoleBinding": `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"b"%s},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"b"},"subjects":[{"kind":"ServiceAccount","name":"b"}]}`,
	"NetworkPolicy": `{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"b"%s},"spec":{"podSelector":{}}}`,
	"Deployment": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"b"%s},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
	"StatefulSet": `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"b"%s},"spec":{"replicas":0,"serviceName":"b","selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
	"MCPServer": `{"apiVersion":"freehold.dev/v1alpha1","kind":"MCPServer","metadata":{"name":"b"%s},"spec":{"image":"i"}}`,
}

// That resourceVersion "1" means "create or refuse" is documented nowhere, so
// it is held here for each kind, on each API server that the suite runs on.
var _ = Describe("A birth", func() {
	const birth = `,"resourceVersion":"1"`
	for kind, body := range born {
		It("creates a "+kind+" or answers 409, and never updates", func() {
			s := newEnv()
			first := s.Apply("first", fmt.Sprintf(body, birth))
			for _, opts := range [][]client.ApplyOption{nil, {client.ForceOwnership}} {
				_, err := s.ApplyErr("second", fmt.Sprintf(body, birth), opts...)
				Expect(errors.IsConflict(err)).To(BeTrue(), "the second birth got %v", err)
				_, err = s.ApplyErr("first", fmt.Sprintf(body, birth), opts...)
				Expect(errors.IsConflict(err)).To(BeTrue(), "the first one's second birth got %v", err)
			}
			s.OwnsNothing(first, "second")
		})

		It("creates a "+kind+" again after its deletion, which a stated uid does not", func() {
			s := newEnv()
			first := s.Apply("first", fmt.Sprintf(body, birth))
			s.Delete(first)
			s.AwaitGone(first)
			_, err := s.ApplyErr("first", fmt.Sprintf(body, fmt.Sprintf(`,"uid":"%s"`, first.GetUID())), client.ForceOwnership)
			Expect(errors.IsConflict(err)).To(BeTrue(), "applying with the uid of a deleted object got %v", err)
			again := s.Apply("first", fmt.Sprintf(body, birth))
			Expect(again.GetUID()).NotTo(Equal(first.GetUID()))
		})
	}
})

var _ = Describe("Status writes", func() {
	It("create nothing", func() {
		s := newEnv()
		_, err := s.ApplyStatusErr("status", server("absent", ``)+"status: {url: http://x}\n")
		Expect(errors.IsNotFound(err)).To(BeTrue(), "applying the status of nothing got %v", err)
	})
})
