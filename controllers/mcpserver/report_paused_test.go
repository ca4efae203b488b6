package mcpserver

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// Waiting does not help where somebody holds the rollout, and nothing else says so.
func TestWhoHoldsARolloutIsTheCause(t *testing.T) {
	pause := func(s *scene) { s.world.Proxy.Spec.Paused = true }
	old := func(s *scene) { s.world.Proxy.Status.UpdatedReplicas = 0 }
	none := func(s *scene) { s.world.Proxy.Status.Replicas, s.world.Proxy.Status.AvailableReplicas = 0, 0 }
	partition := func(of int32) edit {
		return func(s *scene) {
			s.world.Backend.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(of)}
		}
	}
	part := partition(2)
	behind := func(s *scene) { s.world.Backend.Status.UpdateRevision = "next" }
	paused := conditions.False(v1alpha1.ReasonPaused,
		"somebody has paused Deployment echo-proxy, so that its pods are not replaced: kubectl rollout resume "+
			"deployment/echo-proxy")
	parted := conditions.False(v1alpha1.ReasonPaused,
		"somebody has set spec.updateStrategy.rollingUpdate.partition of StatefulSet echo-backend to 2, "+
			"so that pods below that number are not replaced: set it to 0")
	partedAt1 := conditions.False(v1alpha1.ReasonPaused, strings.Replace(parted.Message, "to 2", "to 1", 1))
	says{
		"paused, and all pods are new":        {up(pause), isUp},
		"paused, and a pod is of older days":  {up(said("Updating"), pause, old), paused},
		"paused, and there are no pods":       {up(said("Starting"), pause, none), paused},
		"a partition, and all pods are new":   {up(part), isUp},
		"a partition, and others are to come": {up(said("Updating"), part, behind), parted},
		"a partition of all but one":          {up(said("Updating"), partition(1), behind), partedAt1},
	}.check(t)
}
