package snapshot

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// RunConfig is the run config of a revision, nil if there is none.
func (s *Snapshot) RunConfig(rev revision.Revision) *metav1.PartialObjectMetadata {
	name := workload.RunConfigName(kinds.Key(s.Object), rev)
	for i := range s.runConfigs {
		if s.runConfigs[i].Name == name {
			return &s.runConfigs[i]
		}
	}
	return nil
}

// rememberedAs are the names of the intents that the proxy and its run configs were found to match.
func (r *Reader) rememberedAs(s *Snapshot) map[types.UID]string {
	names := map[types.UID]string{}
	if r.RememberedAs == nil {
		return names
	}
	if proxy := s.Proxy(); proxy.Exists() {
		names[proxy.Live.UID] = r.RememberedAs(proxy.Live)
	}
	for i := range s.runConfigs {
		names[s.runConfigs[i].UID] = r.RememberedAs(&s.runConfigs[i])
	}
	return names
}

// spare is how many run configs stay that no pod mounts, while a rollout goes on.
const spare = 5

// OutdatedRunConfigs are those that no pod mounts or is about to, by number. It is below that of what is wanted: a
// higher one is of content that we do not know, whose pods are about to mount it. Ours is what we control and what has
// the name that its revision gives: a copy is not.
//
// While a rollout goes on a pod may still be made of any content that was wanted since the last one ended. The lowest
// stays, which is of what ran then, and a few of the others: a rollout may never end, whatever the spec is changed to.
func (s *Snapshot) OutdatedRunConfigs(wanted revision.Revision) []*metav1.PartialObjectMetadata {
	if !wanted.Valid() {
		return nil
	}
	proxy := s.Proxy()
	lowest, numbers := wanted.Generation, map[string]int64{}
	var old []*metav1.PartialObjectMetadata
	for i := range s.runConfigs {
		config := &s.runConfigs[i]
		rev, err := revision.Of(config.Annotations)
		below := err == nil && rev.Valid() && rev.Generation < wanted.Generation
		ours := metav1.IsControlledBy(config, s.Object) && config.Name == workload.RunConfigName(kinds.Key(s.Object), rev)
		if !below || !ours {
			continue
		}
		lowest = min(lowest, rev.Generation)
		if rev != proxy.Revision && !s.Pods.mounts(rev) {
			numbers[config.Name] = rev.Generation
			old = append(old, config)
		}
	}
	if proxy.Revision == wanted && (proxy.RolledOut(wanted, false) || s.hasAllProxyPods()) {
		return old
	}
	slices.SortFunc(old, func(a, b *metav1.PartialObjectMetadata) int {
		return cmp.Or(cmp.Compare(numbers[a.Name], numbers[b.Name]), cmp.Compare(a.Name, b.Name))
	})
	if len(old) > 0 && numbers[old[0].Name] == lowest {
		old = old[1:]
	}
	return old[:max(0, len(old)-spare)]
}

// hasAllProxyPods reports whether all pods exist that the Deployment may have at once:
// then no ReplicaSet of an earlier revision is about to make one.
func (s *Snapshot) hasAllProxyPods() bool {
	proxy := s.Proxy()
	spec := proxy.Live.Spec
	if spec.Replicas == nil || proxy.Progress == Unobserved {
		return false
	}
	surge := 0
	if rolling := spec.Strategy.RollingUpdate; rolling != nil && rolling.MaxSurge != nil {
		var err error
		if surge, err = intstr.GetScaledValueFromIntOrPercent(rolling.MaxSurge, int(*spec.Replicas), true); err != nil {
			return false
		}
	}
	return len(s.Pods.Of(workload.ComponentProxy, Active)) >= int(*spec.Replicas)+surge
}
