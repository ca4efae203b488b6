package snapshot

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Numbered is a child whose revision the gate judges. A run config is none
// of them: it is found by its name, not by its number.
type Numbered struct {
	Kind, Name string
	Revision   revision.Revision
	Control    Control
	// runs says that it runs pods: who may write it may run anything here.
	runs bool
}

// counts reports whether a claim of this server may have made its number.
func (n Numbered) counts() bool { return n.Control == Ours || n.Control == Orphan && n.runs }

func numbered[O client.Object](kind string, child Child[O], runs bool) []Numbered {
	if !child.Exists() {
		return nil
	}
	return []Numbered{{kind, child.Live.GetName(), child.Revision, child.Control, runs}}
}

func (s *Snapshot) numbered() []Numbered {
	all := numbered("Deployment", s.proxy.Child, true)
	for _, slot := range workload.Slots {
		in := s.Slots[slot]
		all = append(all, numbered("StatefulSet", in.Backend.Child, true)...)
		all = append(all, numbered("Service", in.Calls, false)...)
		all = append(all, numbered("Service", in.Names, false)...)
	}
	return all
}

// Revisions are those that the next number is counted from: the one in the status, because nothing carries a number
// before it stands there. A child counts up to that, so that two contents under one number are told apart; what is
// above was made by no claim, and whoever may write a child could else use the numbers up.
//
// Only a server without a number, because it is new or its status was lost, goes on from those of its children: of what
// it controls, and of what runs pods and has no controller, as what an earlier server of its name left or what was
// handed over.
func (s *Snapshot) Revisions() []revision.Revision {
	var revisions []revision.Revision
	if s.Last.Claim != nil {
		revisions = append(revisions, s.Last.Claimed)
	}
	// The API server refuses a pointer whose number falls: who stated a higher one would stop it for good.
	if active := s.Last.Active; active != nil && active.Generation > s.Last.Claimed.Generation {
		revisions = append(revisions, revision.Revision{Generation: active.Generation, Hash: active.Hash})
	}
	for _, child := range s.numbered() {
		if child.counts() && (s.Last.Claim == nil || child.Revision.Generation <= s.Last.Claimed.Generation) {
			revisions = append(revisions, child.Revision)
		}
	}
	return revisions
}

// Unclaimed are the children that stand in the way of rev with a number that no claim of this server made. Those of an
// earlier server of the name go by themselves.
func (s *Snapshot) Unclaimed(rev revision.Revision) []Numbered {
	var children []Numbered
	for _, child := range s.numbered() {
		other := child.Revision.Generation == rev.Generation && child.Revision.Hash != rev.Hash && !child.counts()
		if child.Control != Foreign && (child.Revision.Generation > rev.Generation || other) {
			children = append(children, child)
		}
	}
	return children
}
