package mcpserver

import (
	"slices"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// refer notes what a claim records of the configurations. A server counts among
// those that take a configuration in turns until it answers: also if it is changed
// meanwhile, since it may have failed. A later change of its own holds up nobody.
func (want *wanted) refer(server *v1alpha1.MCPServer, w world, ownHash string) {
	want.ownHash = ownHash
	claimed, answered := server.Status.Workload, rollout.OfServer(server).Answered
	same := claimed != nil && claimed.OwnHash == ownHash
	for _, s := range w.shared {
		want.configs = append(want.configs, s.WorkloadConfig)
		turn := s.phase == rollout.Waiting || s.phase == rollout.Moving
		again := claimed != nil && claimed.ConfigRollout && (s.phase == rollout.Moving && !answered() || s.phase == rollout.Failed)
		want.rollsConfig = want.rollsConfig || same && turn || again
	}
}

// turnOf is a configuration for which a server has to wait, nil if it takes all of
// them. It waits only for what nothing but configurations has changed, and with
// content that needs nothing to go on: what it was rendered from is gone.
func (w *world) turnOf(server *v1alpha1.MCPServer, rendered workload.Rendered) *v1alpha1.WorkloadConfig {
	claimed := server.Status.Workload
	if claimed == nil || len(rendered.Problems) > 0 || claimed.OwnHash != rendered.OwnHash || claimed.Hash == rendered.Hash {
		return nil
	}
	runs := revision.Revision{Generation: claimed.Generation, Hash: claimed.Hash}
	if revisionOf(w.proxy) != runs || !w.carriesConfig() && w.config(workload.RunConfigName(kinds.Key(server), runs)) == nil {
		return nil
	}
	for i := range w.shared {
		if !w.shared[i].admitted {
			return &w.shared[i].WorkloadConfig
		}
	}
	return nil
}

// bridged is what a claim records of a backend with a bridge: its hash, and the
// bridge's image in it.
func (want *wanted) bridged() (backend, image string) {
	if bridge := want.content.Backend.Bridge; bridge != nil {
		return want.content.Rendering.Backend, bridge.Image
	}
	return "", ""
}

// recorded reports whether the claim says which configurations its content is of, and
// with which bridge. Another one may say the same.
func (want *wanted) recorded(server *v1alpha1.MCPServer) bool {
	s := server.Status.Workload
	backend, image := want.bridged()
	return s != nil && s.OwnHash == want.ownHash && slices.Equal(s.Configs, want.configs) && s.BackendHash == backend && s.BridgeImage == image
}

// workloadStatus is the claim of the wanted revision.
func (want *wanted) workloadStatus(server *v1alpha1.MCPServer) *v1alpha1ac.MCPServerApplyConfiguration {
	claim := v1alpha1ac.WorkloadStatus().WithGeneration(want.revision.Generation).WithHash(want.revision.Hash)
	rolls := want.rollsConfig
	if want.claimed(server) {
		rolls = server.Status.Workload.ConfigRollout
	}
	if rolls {
		claim.WithConfigRollout(true)
	}
	if want.ownHash != "" {
		claim.WithOwnHash(want.ownHash)
	}
	if backend, image := want.bridged(); image != "" {
		claim.WithBackendHash(backend).WithBridgeImage(image)
	}
	for _, c := range want.configs {
		claim.WithConfigs(v1alpha1ac.WorkloadConfig().WithKind(c.Kind).WithName(c.Name).WithHash(c.Hash))
	}
	return stated(server, v1alpha1ac.MCPServerStatus().WithWorkload(claim))
}

// stated is a part of the status of an object, of its own kind: those of all kinds
// have the same fields, as far as they have them.
func stated(server *v1alpha1.MCPServer, status *v1alpha1ac.MCPServerStatusApplyConfiguration) *v1alpha1ac.MCPServerApplyConfiguration {
	return v1alpha1ac.MCPServer(server.Name, server.Namespace).WithKind(kinds.Of(server).Object.Kind).WithStatus(status)
}
