package virtual

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// maxPage is how long a page of a list of ours is, in bytes: policies filter no answer that is much longer.
const maxPage = 1 << 20

// metaLate is the member of _meta with the names of members whose items are missing from a list, or may be old ones.
const metaLate = "freehold.dev/late"

// merged is a list of all members.
type merged struct {
	entries []entry
	by      map[string]int // by the name under which each is listed
	hash    [8]byte        // of the names
	content [32]byte       // of all that clients are told
	ttl     time.Duration
	private bool
	// collisions are names that several members have.
	collisions []Collision
	// pages are those that clients have asked for, by the entry with which each begins: they are the same for all.
	mu    sync.Mutex
	pages map[int]page
}

// page is a page of a list as JSON, and where the next one begins, 0 for none.
type page struct {
	text jsontext.Value
	next int
}

// entry is an item of a member, and the name under which it is listed.
type entry struct {
	*item
	of   *member
	full string
}

// Collision is a name that several members have, and is listed as one member's.
type Collision struct {
	Name
	// Holder has the name, and Left is left out.
	Holder Key `json:"holder"`
	Left   Key `json:"left"`
}

// maxCollisions is how many are told.
const maxCollisions = 64

// now is a list as members have told it. The lock is held.
func (s *Server) now(k kind) *merged {
	if s.merged[k] == nil || s.stale[k] {
		s.merged[k], s.stale[k] = s.merge(k, s.shown[k]), false
	}
	return s.merged[k]
}

// merge makes a list of what members have told, where before is what clients know. A name that several have stays with
// the one that had it first: which is known so, or recorded, or has joined before the others. The lock is held.
func (s *Server) merge(k kind, before *merged) *merged {
	all := &merged{by: map[string]int{}, ttl: time.Hour, pages: map[int]page{}}
	names, content := sha256.New(), sha256.New()
	claims := s.claims(k)
	holders := map[string]int{} // by name, which of the claims holds it
	for i, claim := range claims {
		other, taken := holders[claim.full]
		if !taken || s.rank(k, claim, before) > s.rank(k, claims[other], before) {
			holders[claim.full] = i
		}
	}
	for i, claim := range claims {
		first := claims[holders[claim.full]]
		if s.awaitsHolder(k, first, before) {
			all.collide(k, claim, s.recordedHolder(k, claim.full))
			continue
		}
		if holders[claim.full] != i {
			all.collide(k, claim, first.of)
			continue
		}
		all.by[claim.full] = len(all.entries)
		all.entries = append(all.entries, claim)
		name := append(binary.AppendUvarint(nil, uint64(len(claim.full))), claim.full...)
		names.Write(name)
		content.Write(name)
		content.Write(claim.sum[:])
	}
	copy(all.hash[:], names.Sum(nil))
	copy(all.content[:], content.Sum(nil))
	s.carry(k, all)
	for _, m := range s.members {
		if l := &m.lists[k]; l.known {
			all.ttl, all.private = min(all.ttl, l.ttl), all.private || l.private
		}
	}
	if len(s.members) == 0 {
		all.ttl = 0
	}
	return all
}

// claims are all items that members have, in the order of the list. The lock is held.
func (s *Server) claims(k kind) (claims []entry) {
	for _, m := range s.members {
		for i := range m.lists[k].items {
			one := &m.lists[k].items[i]
			if k == tools && !m.offers(one.own) {
				continue
			}
			full := one.own
			if k == tools || k == prompts {
				full = m.full(one.own, s.config.Verbatim)
			}
			claims = append(claims, entry{one, m, full})
		}
	}
	return claims
}

// recordedHolder is the member that is recorded to have a name, if that is still one. The lock is held.
func (s *Server) recordedHolder(k kind, full string) *member {
	key, is := s.recorded[Name{listName(k), full}]
	if !is {
		return nil
	}
	at := slices.IndexFunc(s.members, func(m *member) bool { return m.Key == key })
	if at < 0 {
		return nil
	}
	return s.members[at]
}

// listName is how a list is called.
func listName(k kind) string { return of[k].method[:len(of[k].method)-len("/list")] }

// Ranks of those who claim a name. Who clients of this pod know to have it keeps it, also where another pod, which did
// not reach that member, has recorded another one.
const (
	ranksRecorded = iota + 1
	ranksKnown
)

// rank is that of a claim, 0 for one that nobody knows. The lock is held.
func (s *Server) rank(k kind, claim entry, before *merged) int {
	if before != nil {
		at, listed := before.by[claim.full]
		if listed && before.entries[at].of == claim.of && before.entries[at].own == claim.own {
			return ranksKnown
		}
	}
	if s.recordedHolder(k, claim.full) == claim.of {
		return ranksRecorded
	}
	return 0
}

// awaitsHolder reports whether a name is another member's than of the claim that comes first: of one that is recorded
// to have it, and has not told its list to this pod yet. The lock is held.
func (s *Server) awaitsHolder(k kind, first entry, before *merged) bool {
	m := s.recordedHolder(k, first.full)
	return m != nil && !m.lists[k].known && s.rank(k, first, before) == 0
}

// collide notes that a claim is left out.
func (l *merged) collide(k kind, left entry, holder *member) {
	c := Collision{Name: Name{listName(k), left.full}, Holder: holder.Key, Left: left.of.Key}
	if len(l.collisions) < maxCollisions && !slices.Contains(l.collisions, c) {
		l.collisions = append(l.collisions, c)
	}
}

// carry keeps what is recorded of names while members have not told this pod whether they have them. The lock is held.
func (s *Server) carry(k kind, all *merged) {
	names := slices.SortedFunc(maps.Keys(s.recorded), func(a, b Name) int { return cmp.Compare(a.Name, b.Name) })
	for _, name := range names {
		holder, key := s.recordedHolder(k, name.Name), s.recorded[name]
		if name.List != listName(k) || holder == nil {
			continue
		}
		at, listed := all.by[name.Name]
		if holder.lists[k].known && (!listed || all.entries[at].of != holder || len(s.silent(k, name.Name)) == 0) {
			continue // it has given the name up, or nobody else has it
		}
		if !slices.ContainsFunc(all.collisions, func(c Collision) bool { return c.Name == name }) &&
			len(all.collisions) < maxCollisions {
			all.collisions = append(all.collisions, Collision{Name: name, Holder: key, Left: key})
		}
	}
}

// await has members asked for a list that is older than an age, and waits until they have answered, within bounds, or
// the list is enough. Late are the members whose items are missing, or may be old ones.
func (s *Server) await(
	ctx context.Context, k kind, age time.Duration, enough func(*merged) bool,
) (all *merged, late []string) {
	began := time.Now()
	for {
		s.mu.Lock()
		all, late = s.now(k), nil
		var until time.Time // of the last that is waited for
		for _, m := range s.members {
			l := &m.lists[k]
			end := time.Time{}
			if !l.at.After(began) && (!l.failed || l.asking || !l.began.After(began)) {
				end = m.refresh(k, age)
			}
			if l.asking || !l.known || l.failed || m.at == nil {
				late = append(late, m.Name)
			}
			if end.After(until) {
				until = end
			}
		}
		news := s.news
		s.mu.Unlock()
		left := time.Until(until)
		if left <= 0 || enough(all) {
			return all, late
		}
		timer := time.NewTimer(left)
		select {
		case <-news:
			timer.Stop()
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return all, late
		}
	}
}

func never(*merged) bool { return false }

// list answers with a list, from the cursor of the parameters on.
func (s *Server) list(r *http.Request, m jsonrpc.Message, k kind) *http.Response {
	from, hash, wrong := readCursor(jsonrpc.At(m.Params, "cursor"))
	if wrong != nil {
		return fail(r, m.ID, wrong)
	}
	ctx := r.Context()
	var all *merged
	var late []string
	if from == 0 {
		all, late = s.await(ctx, k, fresh, never)
	} else { // no page waits for members that the first one has not waited for
		all = s.known(ctx, k, hash)
	}
	s.show(k, all)
	if from > 0 && (all.hash != hash || from > len(all.entries)) {
		return fail(r, m.ID, jsonrpc.Fail(http.StatusOK, protocol.CodeInvalidParams,
			"the list has changed since the page before: ask for it from the beginning"))
	}
	page := all.page(from, s.page)
	result := jsonrpc.Object{
		"resultType": quoted("complete"), "ttlMs": encoded(all.ttl.Milliseconds()), "cacheScope": quoted("private"),
	}
	if !all.private {
		result["cacheScope"] = quoted("public")
	}
	if page.next > 0 {
		result["nextCursor"] = quoted(all.cursor(page.next))
	}
	meta := jsonrpc.Object{protocol.MetaServer: s.info}
	if len(late) > 0 {
		meta[metaLate] = encoded(late)
	}
	result["_meta"] = meta.Joined()
	rest := jsonrpc.Result(m.ID, result.Joined())
	head := append(rest[:len(rest)-len("}}"):len(rest)-len("}}")], ',')
	head = append(append(head, quoted(of[k].member)...), ':')
	return respond(r, http.StatusOK, head, page.text, []byte("}}"))
}

// known is the list with a hash, if that can be had.
func (s *Server) known(ctx context.Context, k kind, hash [8]byte) *merged {
	s.mu.Lock()
	all := s.now(k)
	s.mu.Unlock()
	if all.hash != hash { // another pod may have it
		all, _ = s.await(ctx, k, fresh, func(all *merged) bool { return all.hash == hash })
	}
	return all
}

// show notes that clients know a list.
func (s *Server) show(k kind, all *merged) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown[k] = all
}

// page is the page that begins at an entry, of so many bytes at most.
func (l *merged) page(from, most int) page {
	l.mu.Lock()
	defer l.mu.Unlock()
	made, is := l.pages[from]
	if !is {
		made = l.make(from, most)
		l.pages[from] = made
	}
	return made
}

func (l *merged) make(from, most int) (made page) {
	text := jsontext.Value{'['}
	for i, e := range l.entries[from:] {
		if i > 0 && len(text)+len(e.text)+len(e.full) > most {
			made.next = from + i
			break
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, e.text[:e.begin]...)
		if e.full == e.own {
			text = append(text, e.text[e.begin:]...)
			continue
		}
		text = append(append(text, quoted(e.full)...), e.text[e.end:]...)
	}
	made.text = slices.Clip(append(text, ']'))
	return made
}

// cursor is that of a page which begins at an entry: any pod understands it that has the same list.
func (l *merged) cursor(from int) string {
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint(l.hash[:], uint64(from)))
}

// readCursor is where a page begins, and the hash of its list.
func readCursor(cursor jsontext.Value) (from int, hash [8]byte, wrong *jsonrpc.Fault) {
	if cursor == nil || cursor.Kind() == 'n' {
		return 0, hash, nil
	}
	unknown := jsonrpc.Fail(http.StatusOK, protocol.CodeInvalidParams, "params.cursor is none that this server has given")
	text, _ := jsontext.AppendUnquote(nil, cursor) //nolint:errcheck // what is no text is not decoded
	raw, err := base64.RawURLEncoding.DecodeString(string(text))
	if err != nil || len(raw) <= len(hash) {
		return 0, hash, unknown
	}
	n, read := binary.Uvarint(raw[len(hash):])
	if read != len(raw)-len(hash) || n == 0 || n > 1<<30 {
		return 0, hash, unknown
	}
	copy(hash[:], raw)
	return int(n), hash, nil
}
