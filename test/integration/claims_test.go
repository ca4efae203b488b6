package integration

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// claimed leaves out what the API server fills in, and writes quantities otherwise than
// it does: the list is one value to server-side apply.
const claimed = `
replicas: 2
volumeMounts: [{name: data, mountPath: /data}]
volumeClaimTemplates:
- metadata: {name: data, labels: {team: red}}
  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}
- metadata: {name: raw}
  spec: {accessModes: [ReadWriteOnce], volumeMode: Block, storageClassName: "", resources: {requests: {storage: 1073741824}}}
`

var ofBackend = client.MatchingLabels{workload.LabelServer: "echo", workload.LabelComponent: workload.ComponentBackend}

const claimsStay = "volumeClaimTemplates cannot be changed, added or removed, because a StatefulSet cannot change " +
	"them: " +
	"leave them as they are, or delete the server and make it again; its claims stay unless " +
	"persistentVolumeClaimRetentionPolicy.whenDeleted is Delete"

var _ = Describe("Claims of volumeClaimTemplates", func() {
	It("are of each pod, and stay when the server goes", func() {
		s := newEnv()
		operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", claimed))
		atRest(s, "echo")
		names := []string{"data-echo-backend-0", "data-echo-backend-1", "raw-echo-backend-0", "raw-echo-backend-1"}
		first := claims(s, names...)
		pods := &corev1.PodList{}
		s.Must(s.Client.List(s.Ctx, pods, client.InNamespace(s.Namespace), ofBackend), "listing pods")
		Expect(pods.Items).To(HaveLen(2))
		for _, pod := range pods.Items {
			Expect(pod.Spec.Volumes).To(ContainElement(HaveField("VolumeSource.PersistentVolumeClaim",
				HaveValue(HaveField("ClaimName", "data-"+pod.Name)))), pod.Name)
		}
		s.Owns(backendOf(s, "echo"), "runner.freehold.dev/backend", "spec.volumeClaimTemplates")

		s.Delete(serverOf(s, "echo"))
		s.AwaitGone(serverOf(s, "echo"))
		Expect(claims(s, names...)).To(Equal(first))
	})

	It("go with a server that says so, and not when it is suspended", func() {
		s := newEnv()
		operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", claimed+"persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}"))
		atRest(s, "echo")
		first := claims(s, "data-echo-backend-0", "data-echo-backend-1")
		s.Apply(git, server("echo", claimed+"persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}\nsuspend: true"))
		pods := &corev1.PodList{}
		s.AwaitAll(pods, "no pod of the backend is left", func() error { return none(len(pods.Items)) }, ofBackend)
		Expect(claims(s, "data-echo-backend-0", "data-echo-backend-1")).To(Equal(first))

		s.Delete(serverOf(s, "echo"))
		s.AwaitGone(serverOf(s, "echo"))
		for _, name := range []string{"data-echo-backend-0", "raw-echo-backend-1"} {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: called(name)}
			s.Await(claim, "it is told to go", func() error {
				// no controller of this plane lets go of what protects claims in use
				if claim.DeletionTimestamp == nil {
					return fmt.Errorf("it stays")
				}
				return nil
			})
		}
	})

	It("are those of the birth: no edit changes, adds or removes a template, and others pass", func() {
		s := newEnv()
		s.Apply(git, server("echo", claimed))
		s.Apply(git, server("plain", ""))
		for mistake, text := range map[string]string{
			"another size": server("echo",
				`volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}]`),
			"removed": server("echo", ""),
			"added":   server("plain", claimed),
		} {
			_, err := s.ApplyErr(git, text)
			Expect(err).To(HaveOccurred(), mistake)
			refusedWith(err, claimsStay)
		}
		s.Apply(git, server("echo", claimed+"args: [again]"))
		s.Apply(git, server("plain", "replicas: 3"))
	})
})

// claims are the uids of the claims of these names.
func claims(s *kit.Env, names ...string) map[string]types.UID {
	GinkgoHelper()
	uids := map[string]types.UID{}
	for _, name := range names {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: called(name)}
		s.Await(claim, "it is there to stay", func() error {
			if claim.DeletionTimestamp != nil {
				return fmt.Errorf("it is being deleted")
			}
			return nil
		})
		uids[name] = claim.UID
	}
	return uids
}
