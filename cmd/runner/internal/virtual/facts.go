package virtual

import (
	"slices"
	"time"
)

// Facts are what is known of the members of a virtual server.
type Facts struct {
	Members    []MemberFacts
	Collisions []Collision
}

// MemberFacts are what is known of a member.
type MemberFacts struct {
	Key
	// Versions are the revisions in which it answers.
	Versions []string
	// Tools, Prompts and Resources are how many are listed of it, nil where that is not known.
	Tools, Prompts, Resources *int32
	// Reason and Message are why it does not tell its lists, or not as a whole, empty where it does.
	Reason, Message string
}

// Facts is what is known now. It asks nobody.
func (s *Server) Facts() Facts {
	s.mu.Lock()
	defer s.mu.Unlock()
	facts, counts := Facts{}, map[*member]*[lists]int32{}
	for k := range lists {
		all := s.now(k)
		for _, e := range all.entries {
			if counts[e.of] == nil {
				counts[e.of] = new([lists]int32)
			}
			counts[e.of][k]++
		}
		for _, c := range all.collisions {
			if len(facts.Collisions) < maxCollisions {
				facts.Collisions = append(facts.Collisions, c)
			}
		}
	}
	for _, m := range s.members {
		one := MemberFacts{Key: m.Key}
		if m.hello != nil {
			one.Versions = m.hello.versions
		}
		for k, to := range map[kind]**int32{tools: &one.Tools, prompts: &one.Prompts, resources: &one.Resources} {
			if m.lists[k].known {
				n := int32(0)
				if c := counts[m]; c != nil {
					n = c[k]
				}
				*to = &n
			}
		}
		for k := range lists {
			if wrong := m.lists[k].trouble; wrong != nil && one.Reason == "" && wrong.reason != ReasonRefused {
				one.Reason, one.Message = wrong.reason, of[k].method+": "+wrong.message
			}
		}
		facts.Members = append(facts.Members, one)
	}
	return facts
}

// Ready reports whether every member has told its tools, or has been waited for.
func (s *Server) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isSet && !slices.ContainsFunc(s.members, func(m *member) bool {
		l := &m.lists[tools]
		return m.at != nil && !l.known && !l.failed && time.Since(l.began) < firstWait
	})
}

// News is closed when facts may have changed since it was asked for.
func (s *Server) News() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.news
}
