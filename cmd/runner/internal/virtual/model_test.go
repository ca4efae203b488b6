package virtual

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// Members come and go, are renamed, slow, away and wrong, and have other tools, while clients list, page and call at
// two pods. No name that a client has seen leads to another member, no call runs twice, and once all is well a list is
// what the members have.
func TestNoNameChangesHands(t *testing.T) {
	seed := uint64(1)
	if os.Getenv("FREEHOLD_EXPLORE") != "" {
		seed = rand.Uint64()
	}
	for run := range howMany(t, 150) {
		lives := fmt.Sprintf("seed %d, run %d", seed, run)
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, rand.New(rand.NewPCG(seed, uint64(run))))
			for range 30 {
				w.step()
			}
			w.settle()
			if t.Failed() {
				t.Fatalf("%s:\n%s", lives, strings.Join(w.log, "\n"))
			}
		})
	}
}

// howMany is how many sequences are played: more in make soak.
func howMany(t *testing.T, few int) int {
	t.Helper()
	text := os.Getenv("FREEHOLD_VIRTUAL_RUNS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// world is members, pods of a virtual server over them, and what clients of these have seen.
type world struct {
	*testing.T
	random *rand.Rand
	fakes  map[string]*fake
	// in are the members by their names, as the status says, and has are the tools of all there are.
	in     map[string]Member
	has    map[string][]string
	joined int64
	pods   []*pod
	// recorded is who has a name first that several have, as the status says.
	recorded map[Name]Key
	log      []string
}

// pod is one of the virtual server, and what its clients have seen: by name, which tool of which member it is.
type pod struct {
	*Server
	seen map[string]place
}

type place struct{ member, own string }

var (
	worldNames    = []string{"m1", "m2", "m3", "m4"}
	worldPrefixes = []string{"", "a_", "a_b_", "b.", "NAME_"}
	worldTools    = []string{"x", "b_x", "a_b_x", "a_x", "b_b_x", "y.1", "y_1", "m1_x"}
)

func newWorld(t *testing.T, random *rand.Rand) *world {
	w := &world{
		T: t, random: random, fakes: map[string]*fake{}, in: map[string]Member{}, has: map[string][]string{},
		recorded: map[Name]Key{},
	}
	for _, name := range worldNames {
		w.fakes[name] = &fake{page: 1 + random.IntN(4)}
		w.change(name)
	}
	for range 2 {
		w.pods = append(w.pods, &pod{serverOf(w.fakes), map[string]place{}})
		w.pods[len(w.pods)-1].page = 60
	}
	w.join(worldNames[0])
	return w
}

func (w *world) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// any is one of some.
func (w *world) any(some []string) string { return some[w.random.IntN(len(some))] }

// change gives a member other tools.
func (w *world) change(name string) {
	has := slices.Clone(worldTools)
	w.random.Shuffle(len(has), func(i, j int) { has[i], has[j] = has[j], has[i] })
	w.has[name] = has[:w.random.IntN(5)]
	f := w.fakes[name]
	f.mu.Lock()
	f.lists[tools] = nil
	for _, own := range w.has[name] {
		f.lists[tools] = append(f.lists[tools], tool(own))
	}
	f.mu.Unlock()
	w.note("%s has %q", name, w.has[name])
	w.forget(func(p place) bool { return p.member == name && !slices.Contains(w.has[name], p.own) })
}

// forget has clients not rely on names any more, whose members have given them up.
func (w *world) forget(gone func(place) bool) {
	for _, p := range w.pods {
		maps.DeleteFunc(p.seen, func(_ string, is place) bool { return gone(is) })
	}
}

// join has a member join, or be renamed, with a prefix that no other one has.
func (w *world) join(name string) {
	prefix := strings.ReplaceAll(w.any(worldPrefixes), "NAME", name)
	for _, m := range w.in {
		if m.Name != name && m.Prefix == prefix && prefix != "" {
			return
		}
	}
	m, is := w.in[name]
	if !is {
		w.joined++
		m = memberAt(name, w.joined)
	}
	if is && m.Prefix != prefix {
		w.forget(func(p place) bool { return p.member == name })
	}
	m.Prefix = prefix
	w.in[name] = m
	w.note("%s is a member, prefix %q", name, prefix)
	w.tell()
}

func (w *world) leave(name string) {
	delete(w.in, name)
	w.forget(func(p place) bool { return p.member == name })
	w.note("%s leaves", name)
	w.tell()
}

// tell has the pods follow the status, in which is what they have told of names that several have: what was told first
// stands, while a pod tells it.
func (w *world) tell() {
	recorded := map[Name]Key{}
	for _, p := range w.pods {
		for _, c := range p.Facts().Collisions {
			before, is := w.recorded[c.Name]
			if _, again := recorded[c.Name]; is {
				recorded[c.Name] = before
			} else if !again {
				recorded[c.Name] = c.Holder
			}
		}
	}
	w.recorded = recorded
	for _, p := range w.pods {
		p.Set(slices.Collect(maps.Values(w.in)), maps.Clone(recorded))
	}
}

// behave has a member answer well, late, not at all, or wrong.
func (w *world) behave(name string) {
	f, how := w.fakes[name], w.random.IntN(7)
	w.note("%s behaves %d", name, how)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = [...]func(*http.Request, jsonrpc.Message) (*http.Response, error){
		nil,
		func(r *http.Request, _ jsonrpc.Message) (*http.Response, error) {
			select {
			case <-time.After(3 * time.Second):
				return nil, nil //nolint:nilnil // the fake answers
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		},
		func(r *http.Request, m jsonrpc.Message) (*http.Response, error) {
			if m.Method == protocol.MethodCallTool {
				return nil, nil //nolint:nilnil // the fake answers
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		func(*http.Request, jsonrpc.Message) (*http.Response, error) { return nil, errors.New("refused") },
		func(r *http.Request, m jsonrpc.Message) (*http.Response, error) {
			if m.Method == protocol.MethodCallTool {
				return nil, nil //nolint:nilnil // the fake answers
			}
			return respond(r, http.StatusInternalServerError, []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[`)), nil
		},
		func(r *http.Request, _ jsonrpc.Message) (*http.Response, error) {
			return respond(r, http.StatusForbidden, nil), nil
		},
		func(r *http.Request, m jsonrpc.Message) (*http.Response, error) {
			if m.Method != protocol.MethodListTools {
				return nil, nil //nolint:nilnil // the fake answers
			}
			return respond(r, http.StatusOK, []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}`)), nil
		},
	}[how]
}

func (w *world) step() {
	p := w.pods[w.random.IntN(len(w.pods))]
	switch w.random.IntN(12) {
	case 0, 1:
		w.join(w.any(worldNames))
	case 2:
		w.leave(w.any(worldNames))
	case 3:
		w.behave(w.any(worldNames))
	case 4:
		w.change(w.any(worldNames))
	case 5:
		w.note("the status is told")
		w.tell()
	case 6:
		w.note("a pod starts")
		i := w.random.IntN(len(w.pods))
		w.pods[i] = &pod{serverOf(w.fakes), map[string]place{}}
		w.pods[i].page = 60
		w.tell()
	case 7:
		time.Sleep(time.Duration(w.random.IntN(10)) * time.Second)
	case 8, 9:
		w.list(p)
	default:
		w.call(p)
	}
}

// list has a client of a pod ask for all pages. What it has seen before stays where it was, if it is listed.
func (w *world) list(p *pod) (names []string) {
	params := `{}`
	for params != "" {
		_, result, fault := ask(w.T, p.Server, "tools/list", params)
		if fault != "" {
			w.note("a list has changed")
			if params == `{}` || !strings.Contains(fault, "-32602") {
				w.Errorf("a list is answered with %s", fault)
			}
			return nil
		}
		names = append(names, namesIn(w.T, tools, result)...)
		if params = ""; strings.Contains(result, `"nextCursor"`) {
			params = `{"cursor":` + string(jsonrpc.At(jsontext.Value(result), "nextCursor")) + `}`
		}
	}
	w.note("a list has %q", names)
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.now(tools)
	for _, name := range names {
		at, listed := all.by[name]
		if !listed {
			continue // a member has told something else since
		}
		is := place{all.entries[at].of.Name, all.entries[at].own}
		if before, seen := p.seen[name]; seen && before != is {
			w.Errorf("%s was %v, and is %v", name, before, is)
		}
		if slices.Contains(w.has[is.member], is.own) {
			p.seen[name] = is
		}
	}
	return names
}

// call has a client call what it may know, or not.
func (w *world) call(p *pod) {
	name := portable(w.any(worldTools))
	if known := slices.Sorted(maps.Keys(p.seen)); len(known) > 0 && w.random.IntN(4) > 0 {
		name = w.any(known)
	}
	before := w.called()
	_, result, fault := ask(w.T, p.Server, "tools/call", `{"name":"`+name+`"}`)
	if n := w.called() - before; n > 1 || n == 0 && fault == "" {
		w.Errorf("the call of %s ran %d times: %s", name, n, result)
	}
	said, seen := jsonrpc.TextAt(jsontext.Value(result), "said"), p.seen[name]
	w.note("%s is called: %s%s, of %v", name, said, fault, seen)
	switch {
	case seen == (place{}):
	case fault != "" && !strings.Contains(fault, "MemberUnreachable") && !strings.Contains(fault, "MemberRefuses"):
		w.Errorf("%s of %v is answered with %s", name, seen, fault)
	case fault == "" && said != seen.member+" "+seen.own:
		w.Errorf("%s of %v is answered by %s", name, seen, said)
	}
}

// called is how many calls members have got.
func (w *world) called() (n int) {
	for _, f := range w.fakes {
		f.mu.Lock()
		n += len(f.calls)
		f.mu.Unlock()
	}
	return n
}

// settle has all be well: then each name that members have is listed once, and leads to one of these.
func (w *world) settle() {
	for _, f := range w.fakes {
		f.mu.Lock()
		f.answer = nil
		f.mu.Unlock()
	}
	time.Sleep(time.Minute)
	w.tell()
	claimants := map[string][]string{}
	for _, m := range w.in {
		for _, own := range w.has[m.Name] {
			name := m.full(own, false)
			claimants[name] = append(claimants[name], m.Name+" "+own)
		}
	}
	for _, p := range w.pods {
		names := w.list(p)
		slices.Sort(names)
		if want := slices.Sorted(maps.Keys(claimants)); !slices.Equal(names, want) {
			w.Errorf("in the end there are %q, want %q", names, want)
		}
		for name, claims := range claimants {
			_, result, fault := ask(w.T, p.Server, "tools/call", `{"name":"`+name+`"}`)
			if got := jsonrpc.TextAt(jsontext.Value(result), "said"); !slices.Contains(claims, got) {
				w.Errorf("in the end %s is answered by %q%s, want one of %q", name, got, fault, claims)
			}
		}
	}
}
