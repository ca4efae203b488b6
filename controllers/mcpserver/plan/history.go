package plan

import "github.com/freehold-dev/freehold/apis/v1alpha1"

// history keeps the content of the target's backend, and drops what is none of the last contents. Content that comes
// back after other content is stored anew under its new number: so the order of the numbers is that of use. It comes
// after the proxy, and in no group with it: nothing that serves rests on it.
func (m *maker) history() {
	server, is := m.s.Object.(*v1alpha1.MCPServer)
	if !is {
		return
	}
	switch stored := m.s.Content(m.Digest.Backend); {
	case stored == nil:
		m.always(StoreContent{})
	case m.s.IsReused(stored, m.Target):
		m.always(StoreContent{Replaces: stored})
	}
	for _, old := range m.s.OutdatedContents(m.Target, m.contentsInUse(server)...) {
		m.always(RemoveContent{old})
	}
}

// contentsInUse are the hashes of the contents that run, are about to, or are drained.
func (m *maker) contentsInUse(server *v1alpha1.MCPServer) []string {
	hashes := []string{m.Digest.Backend}
	for _, in := range m.s.Slots {
		hashes = append(hashes, in.Backend.Hash)
	}
	if active := server.Status.Active; active != nil {
		hashes = append(hashes, active.Hash)
	}
	if rollout := server.Status.Rollout; rollout != nil {
		hashes = append(hashes, rollout.Target.Hash)
		if rollout.From != nil {
			hashes = append(hashes, rollout.From.Hash)
		}
	}
	return hashes
}
