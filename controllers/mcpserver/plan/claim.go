package plan

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/mcpserver/render"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/runspec"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// take chooses the content of a server: the present one, or, where it is to wait for a configuration, one with what it
// has of that. It reports true where what stands is to be kept as it is: because nothing else has changed, or because
// what it has of it cannot be told, as where another release wrote it. A server of which nothing is left does not wait:
// what it was rendered from is gone. What ran is believed by the hash that was claimed.
func (m *maker) take(digests render.Digests) (keeps bool) {
	m.Digest = digests.Present
	claim, waits := m.s.Last.Claim, m.s.Configs.Waits()
	switch {
	case waits == nil, claim == nil, len(m.Digest.Problems) > 0:
		return false
	case m.s.Configs.Ran == nil, claim.Hash == m.Digest.Hash:
		m.admitAll() // nothing waits, or nothing is new
		return false
	}
	m.waitsFor = waits
	if m.s.Proxy().Revision == m.s.Last.Claimed && claim.OwnHash == m.Digest.OwnHash && takesNone(m.turns) {
		return true
	}
	if digests.Before == nil || len(digests.Before.Problems) > 0 {
		return true
	}
	m.Digest = *digests.Before
	return false
}

func (m *maker) admitAll() {
	m.turns = slices.Clone(m.turns)
	for i := range m.turns {
		m.turns[i].Admitted = true
	}
}

// takesNone reports whether a server has all configurations but those for which it is to wait.
func takesNone(turns []rollout.Turn) bool {
	return !slices.ContainsFunc(turns, func(t rollout.Turn) bool {
		return t.Admitted && t.Phase != rollout.Done && t.Phase != rollout.Moving && t.Phase != rollout.Failed
	})
}

// claim is what status.workload is to say: the target, which configurations it is of, with which bridge and Secret,
// and what the objects carry that the runner makes, where it makes some.
func (m *maker) claim() v1alpha1.WorkloadStatus {
	same := m.s.Last.HasClaimed(m.Target)
	claim := v1alpha1.WorkloadStatus{
		Generation: m.Target.Generation, Hash: m.Target.Hash, OwnHash: m.Digest.OwnHash,
		BackendHash: m.Digest.Backend, BridgeImage: m.Digest.BridgeImage, SessionSecret: m.Digest.SessionSecret,
		BridgeImages:  m.bridgeImages(same),
		ConfigRollout: same && m.s.Last.Claim.ConfigRollout, Strategy: m.strategy(same),
	}
	if m.owner.Backend {
		claim.Labels, claim.Annotations = m.owner.Metadata.Labels, m.owner.Metadata.Annotations
	}
	for _, turn := range m.turns {
		claim.Configs = append(claim.Configs, rollout.Of(m.s.Object).Records(turn, same))
	}
	return claim
}

// bridgeImages are those of other contents that the status names, by which who goes back to one of them finds it, also
// where a release with another bridge has claimed something else since.
func (m *maker) bridgeImages(same bool) map[string]string {
	claim := m.s.Last.Claim
	switch {
	case claim == nil:
		return nil
	case same:
		return claim.BridgeImages
	}
	images, named := map[string]string{claim.BackendHash: claim.BridgeImage}, workload.ContentsOf(m.s.Object).Hashes
	maps.Copy(images, claim.BridgeImages)
	maps.DeleteFunc(images, func(hash, image string) bool {
		return image == "" || hash == m.Digest.Backend || !slices.Contains(named, hash)
	})
	return images
}

// recorded reports whether the claim that stands says what it is to say.
func (m *maker) recorded() bool {
	has, want := m.s.Last.Claim, m.Claim
	return has != nil && has.OwnHash == want.OwnHash && slices.Equal(has.Configs, want.Configs) &&
		has.BackendHash == want.BackendHash && has.BridgeImage == want.BridgeImage &&
		has.SessionSecret == want.SessionSecret && has.Strategy == want.Strategy &&
		maps.Equal(has.Labels, want.Labels) && maps.Equal(has.Annotations, want.Annotations)
}

// lacksSessionKey reports whether the Secret was not made yet, or is to be made again: a new spec.restartedAt is how a
// person brings a deleted key back. A claim without a name is of an older release, which had made the Secret.
func (m *maker) lacksSessionKey() bool {
	claim, proxy, backend := m.s.Last.Claim, m.s.Proxy(), m.s.Backend()
	if claim == nil || claim.SessionSecret != "" && claim.SessionSecret != m.Digest.SessionSecret {
		return true
	}
	var runs map[string]string
	switch {
	case m.s.Kind.Backend && backend.Exists():
		runs = backend.Live.Spec.Template.Annotations
	case !m.s.Kind.Backend && proxy.Exists():
		runs = proxy.Live.Spec.Template.Annotations
	default:
		return false
	}
	return runs[podtemplate.AnnotationRestartedAt] != runspec.RestartedAt(m.s.Object.GetProxySpec().RestartedAt)
}

// claimPath is what a claim writes, in the terms of field ownership.
var claimPath = ownership.MustPath("status.workload.hash")

// superseded reports whether the server is left to another operator: a process like ours, and not a person who edits
// the status, claimed other content above what this process held, though it wants the same as before. Two operators of
// different options, each of which believes that it leads, would else claim the server in turns for ever, and roll its
// pods each time. Who claimed last stays: that is who started last, and so who was meant to take over.
func (m *maker) superseded() bool {
	held, claim := m.s.Held, m.s.Last.Claimed
	if m.s.Last.Claim == nil || held.Revision.Hash != m.Target.Hash || claim.Hash == m.Target.Hash ||
		claim.Generation <= held.Revision.Generation ||
		!held.Lost.IsZero() && !m.s.Now.Before(held.Lost.Add(snapshot.LeftTo)) {
		return false
	}
	owners, err := ownership.Owners(m.s.Object.GetManagedFields(), claimPath)
	return err == nil && len(owners) == 1 &&
		owners[0].Manager == string(m.s.Kind.WorkloadManager) && owners[0].Operation == metav1.ManagedFieldsOperationApply
}

// network is the backend's NetworkPolicy that the spec and the release ask for, nil for none.
func (m *maker) network() *networkingv1ac.NetworkPolicyApplyConfiguration {
	return workload.BackendNetworkPolicy(m.s.Object, m.release)
}

// networkWrong reports whether the API server would refuse the NetworkPolicy.
func (m *maker) networkWrong() bool {
	server, is := m.s.Object.(*v1alpha1.MCPServer)
	return is && len(workload.CheckNetwork("spec.network", server.Spec.Network)) > 0
}

// TakesInTurn is the configuration that the target takes in its turn, nil if the server changes by itself.
func (p *Plan) TakesInTurn(s *snapshot.Snapshot) *v1alpha1.WorkloadConfig {
	had := s.Last.Claim
	if had == nil || had.OwnHash != p.Digest.OwnHash {
		return nil
	}
	for i := range p.Claim.Configs {
		c := &p.Claim.Configs[i]
		if c.InTurn && !slices.ContainsFunc(had.Configs, func(h v1alpha1.WorkloadConfig) bool {
			return h.Kind == c.Kind && h.Name == c.Name && h.Hash == c.Hash
		}) {
			return c
		}
	}
	return nil
}
