package plan

// history keeps the content of the target's backend, and drops what is none of the last contents. Content that comes
// back after other content is stored anew under its new number: so the order of the numbers is that of use.
func (m *maker) history(group *Plan) {
	if !m.s.Kind.Backend {
		return
	}
	switch stored := m.s.Content(m.Digest.Backend); {
	case stored == nil:
		group.always(StoreContent{})
	case m.s.IsReused(stored, m.Target):
		group.always(StoreContent{Replaces: stored})
	}
	for _, old := range m.s.OutdatedContents(m.Target, m.contentsInUse()...) {
		group.always(RemoveContent{old})
	}
}

// contentsInUse are the hashes of the contents that run, or are about to.
func (m *maker) contentsInUse() []string {
	return []string{m.Digest.Backend, m.s.Backend().Hash}
}
