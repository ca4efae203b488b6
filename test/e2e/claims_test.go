package e2e

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/workload"
)

// notesImage counts in a folder how often it was started there, and calls that its
// version: testdata/notes.
var notesImage = "freehold.dev/notes:" + version()

var _ = It("The claim of a pod is bound, its data outlives the pod and the server, and goes with a server that says so",
	func(ctx SpecContext) {
		s := newStory("notes")
		s.admitAll(ctx) // only root writes to a folder of the node
		volume := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: s.namespace, // of no provisioner
				Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")},
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				// The node removes what is left in its folder of such volumes when it goes.
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
					Path: "/tmp/" + s.namespace, Type: new(corev1.HostPathDirectoryOrCreate),
				}},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			},
		}
		Expect(cluster.Create(ctx, volume)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(cluster.Delete(ctx, volume))).To(Succeed())
		})
		spec := func(more string) string {
			return fmt.Sprintf(`{image: %q, args: [/data], volumeMounts: [{name: data, mountPath: /data}],
			volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: %s, resources: {requests: {storage: 16Mi}}}}],
			podTemplate: {spec: {terminationGracePeriodSeconds: 2, securityContext: {runAsUser: 0, runAsNonRoot: false}}}%s}`,
				notesImage, s.namespace, more)
		}
		started := func(times string) {
			GinkgoHelper()
			Eventually(ctx, func(g Gomega) {
				runtime := s.server(ctx).Status.Runtime
				g.Expect(runtime).NotTo(BeNil())
				g.Expect(runtime.Server).To(HaveValue(HaveField("Version", times)))
			}).Should(Succeed())
		}
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "data-" + workload.BackendName(s.name) + "-0"},
		}

		s.apply(ctx, spec(""))
		s.ready(ctx)
		started("1")
		Expect(cluster.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(Succeed())
		Expect(claim.Status.Phase).To(Equal(corev1.ClaimBound))
		Expect(claim.Spec.VolumeName).To(Equal(volume.Name))
		first := claim.UID

		By("restarting the pod")
		s.apply(ctx, spec(`, restartedAt: "2026-11-22T10:00:00Z"`))
		started("2")

		By("deleting the server, and making it again")
		remove := func() {
			GinkgoHelper()
			server := s.server(ctx)
			Expect(cluster.Delete(ctx, server)).To(Succeed())
			Eventually(ctx, func() bool {
				return apierrors.IsNotFound(
					cluster.Get(ctx, client.ObjectKeyFromObject(server), server))
			}).Should(BeTrue())
		}
		remove()
		s.apply(ctx, spec(`, persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}`))
		started("3")
		Expect(cluster.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(Succeed())
		Expect(claim.UID).To(Equal(first))

		By("deleting one that takes its claims along")
		remove()
		Eventually(ctx, func() bool {
			return apierrors.IsNotFound(
				cluster.Get(ctx, client.ObjectKeyFromObject(claim), claim))
		}).Should(BeTrue())
	})
