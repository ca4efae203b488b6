package mcpserver

import (
	"maps"
	"slices"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// record notes what a claim records of the configurations.
func (want *wanted) record(server *v1alpha1.MCPServer, w world) {
	want.configs = nil
	for _, turn := range w.turns {
		want.configs = append(want.configs, rollout.Of(server).Records(turn, want.claimed(server)))
	}
}

// takesTurns renders a server that is to wait for a configuration with what it has of
// that. It reports true where what stands is to be kept as it is: because nothing
// else has changed, or because what it has of it cannot be told, as where another
// release wrote it. One of which nothing is left does not wait: what it was rendered
// from is gone. What ran is believed by the hash that was claimed.
func (want *wanted) takesTurns(server *v1alpha1.MCPServer, w *world, rendered *workload.Rendered, options podtemplate.Options) (keeps bool) {
	claimed, waits := server.Status.Workload, w.waits()
	switch {
	case waits == nil, claimed == nil, len(rendered.Problems) > 0:
		return false
	case w.ran == nil, claimed.Hash == rendered.Hash:
		w.admitAll() // nothing waits, or nothing is new
		return false
	}
	want.waitsFor = waits
	runs := revision.Revision{Generation: claimed.Generation, Hash: claimed.Hash}
	if revisionOf(w.proxy) == runs && claimed.OwnHash == rendered.OwnHash && w.takesNone() {
		return true
	}
	for _, turn := range w.turns {
		if turn.Admitted {
			continue
		}
		had, told := options.Configs.Before(turn.Kind, &w.ran.Proxy, rollout.Of(server).Records(turn, true).Hash)
		if !told {
			return true
		}
		options.Configs = had
	}
	before := workload.Render(w.rendered(server), options)
	if len(before.Problems) > 0 {
		return true
	}
	*rendered = before
	return false
}

// admitAll lets a server go on with all configurations.
func (w *world) admitAll() {
	w.turns = slices.Clone(w.turns)
	for i := range w.turns {
		w.turns[i].Admitted = true
	}
}

// takesNone reports whether a server has all configurations but those for which it is
// to wait.
func (w *world) takesNone() bool {
	return !slices.ContainsFunc(w.turns, func(t rollout.Turn) bool {
		return t.Admitted && t.Phase != rollout.Done && t.Phase != rollout.Moving && t.Phase != rollout.Failed
	})
}

// bridged is what a claim records of a backend with a bridge: its hash, and the
// bridge's image in it.
func (want *wanted) bridged() (backend, image string) {
	if bridge := want.content.Backend.Bridge; bridge != nil {
		return want.content.Rendering.Backend, bridge.Image
	}
	return "", ""
}

// runners is what the objects carry that the runner makes; nothing where it makes none.
func (want *wanted) runners() podtemplate.Metadata {
	if want.owner.Backend {
		return want.owner.Metadata
	}
	return podtemplate.Metadata{}
}

// recorded reports whether the claim says which configurations its content is of, with
// which bridge and Secret, and what the runner's objects carry. Another one may say the same.
func (want *wanted) recorded(server *v1alpha1.MCPServer) bool {
	s := server.Status.Workload
	backend, image := want.bridged()
	return s != nil && s.OwnHash == want.ownHash && slices.Equal(s.Configs, want.configs) && s.BackendHash == backend && s.BridgeImage == image &&
		s.SessionSecret == want.content.Proxy.SessionSecret &&
		maps.Equal(s.Labels, want.runners().Labels) && maps.Equal(s.Annotations, want.runners().Annotations)
}

// workloadStatus is the claim of the wanted revision.
func (want *wanted) workloadStatus(server *v1alpha1.MCPServer) *v1alpha1ac.MCPServerApplyConfiguration {
	claim := v1alpha1ac.WorkloadStatus().WithGeneration(want.revision.Generation).WithHash(want.revision.Hash).
		WithLabels(want.runners().Labels).WithAnnotations(want.runners().Annotations)
	if want.claimed(server) && server.Status.Workload.ConfigRollout {
		claim.WithConfigRollout(true)
	}
	if want.ownHash != "" {
		claim.WithOwnHash(want.ownHash)
	}
	if backend, image := want.bridged(); image != "" {
		claim.WithBackendHash(backend).WithBridgeImage(image)
	}
	if secret := want.content.Proxy.SessionSecret; secret != "" {
		claim.WithSessionSecret(secret)
	}
	for _, c := range want.configs {
		config := v1alpha1ac.WorkloadConfig().WithKind(c.Kind).WithName(c.Name).WithHash(c.Hash)
		if c.InTurn {
			config.WithInTurn(true)
		}
		claim.WithConfigs(config)
	}
	return stated(server, v1alpha1ac.MCPServerStatus().WithWorkload(claim))
}

// stated is a part of the status of an object, of its own kind: those of all kinds
// have the same fields, as far as they have them.
func stated(server *v1alpha1.MCPServer, status *v1alpha1ac.MCPServerStatusApplyConfiguration) *v1alpha1ac.MCPServerApplyConfiguration {
	return v1alpha1ac.MCPServer(server.Name, server.Namespace).WithKind(kinds.Of(server).Object.Kind).WithStatus(status)
}
