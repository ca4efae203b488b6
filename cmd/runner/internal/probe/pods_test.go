package probe

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// several are the pods of a backend as a proxy knows them, in virtual time, and what they are asked.
type several struct {
	mu    sync.Mutex
	all   []netip.Addr
	calls map[netip.Addr]func() time.Time // when one last answered a call
	out   []int                           // how many are left out
	// told is what callers are told, and since when, in seconds; busy is until when a call is on its way.
	began time.Time
	told  []string
	busy  time.Duration
	asked map[string]int
}

func (s *several) Pods(context.Context) []netip.Addr { return s.all }

func (s *several) LastAnswer(pod netip.Addr) time.Time {
	if at := s.calls[pod]; at != nil {
		return at()
	}
	return time.Time{}
}

func (s *several) Down(reason, _ string) {
	if n := len(s.told); n > 0 && strings.HasPrefix(s.told[n-1], cmp.Or(reason, "?")) {
		return
	}
	s.told = append(s.told, fmt.Sprintf("%s %.0f", cmp.Or(reason, "?"), time.Since(s.began).Seconds()))
}
func (s *several) IsBusy() bool { return time.Since(s.began) < s.busy }

func (s *several) LeaveOut(pods []netip.Addr) { s.out = append(s.out, len(pods)) }

// podsOf are the addresses of n pods.
func podsOf(n int) (all []netip.Addr) {
	for i := range n {
		all = append(all, netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}))
	}
	return all
}

// TestEachPodIsAsked: a pod that does not answer is left out alone. The backend is said not to answer once none does,
// and nothing is told while nothing changes.
func TestEachPodIsAsked(t *testing.T) {
	const partly, others = "1 of its 2 pods does not", "10.0.0.2"
	for name, tc := range map[string]struct {
		pods int
		// hangs says which pods hang after so long, and which answer a call each ten seconds.
		hangs func(pod string, since time.Duration) bool
		calls string
		want  []string
		// says is in the last finding, and out are the pods that are left out at the end.
		says string
		out  int
		// most is how often a pod is asked at most in an hour, and least how often one is.
		least, most int
	}{
		"all answer": {2, func(string, time.Duration) bool { return false }, "", []string{"Answers 0 0"}, "", 0, 120, 134},
		"one hangs": {
			2, func(pod string, _ time.Duration) bool { return pod == others }, "",
			[]string{"Answers 0 0", "Answers 81 110"},
			partly, 1, 120, 134,
		},
		"one hangs, and the other is called": {
			2, func(pod string, _ time.Duration) bool { return pod == others }, "10.0.0.1",
			[]string{"Answers 0 0", "Answers 81 110"},
			partly, 1, 6, 134,
		},
		"one hangs, and is back": {
			2, func(pod string, since time.Duration) bool { return pod == others && since < 30*time.Minute }, "",
			[]string{"Answers 0 0", "Answers 81 110", "Answers 1800 1840"},
			"", 0, 120, 134,
		},
		"one hangs, and then both, and one is back": {
			2, func(pod string, since time.Duration) bool {
				return pod == others || since > 20*time.Minute && since < 40*time.Minute
			}, "",
			[]string{"Answers 0 0", "Answers 81 110", "? 1200 1250", "NotAnswering 1256 1340", "Answers 2400 2440"},
			partly, 1,
			120, 134,
		},
		"many": {40, func(string, time.Duration) bool { return false }, "", []string{"Answers 0 0"}, "", 0, 38, 48},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s := &several{all: podsOf(tc.pods), asked: map[string]int{}, calls: map[netip.Addr]func() time.Time{}}
				if tc.calls != "" {
					s.calls[netip.MustParseAddr(tc.calls)] = func() time.Time {
						return began.Add(time.Since(began).Truncate(10 * time.Second))
					}
				}
				server := mcp.NewServer(&mcp.Implementation{Name: "b", Version: "1"}, nil)
				sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
					&mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true})
				b := inMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					pod := r.Header.Get(protocol.HeaderPod)
					if r.Header.Get(protocol.HeaderMethod) == protocol.MethodDiscover {
						s.mu.Lock()
						s.asked[pod]++
						s.mu.Unlock()
					}
					if since := time.Since(began); since > 0 && tc.hangs(pod, since) {
						hangs(w, r)
						return
					}
					sdk.ServeHTTP(w, r)
				}))
				b.Server.Proxy.Probe, b.Asked = nil, s
				scene := &scene{bench: b, began: began}
				scene.play(t.Context(), time.Hour)
				if !scene.within(tc.want...) || !strings.Contains(scene.last.Answers.Message, tc.says) {
					t.Errorf("told %q, want %q; last %q", scene.told, tc.want, scene.last.Answers.Message)
				}
				if n := len(s.out); s.out[n-1] != 0 || s.out[n-2] != tc.out {
					t.Errorf("pods are left out: %v", s.out)
				}
				if len(s.asked) != tc.pods {
					t.Errorf("%d pods are asked", len(s.asked))
				}
				for pod, asked := range s.asked {
					if asked > tc.most || asked < tc.least {
						t.Errorf("%s is asked %d times", pod, asked)
					}
				}
			})
		})
	}
}

// TestCallersAreToldOfABackendThatDoesNotAnswer: as soon as the status is, and until it answers; but not of one that
// may be busy with a call of a client, and does not answer in time.
func TestCallersAreToldOfABackendThatDoesNotAnswer(t *testing.T) {
	const from, to = 10 * time.Minute, 40 * time.Minute
	fails, page := plain(http.StatusBadGateway), answer(http.StatusOK, "Content-Type", "text/html", "<p>")
	late := func(told string) []string { return []string{"? 0 0", told, "? 2400 2440"} }
	at := func(reason string) []string { return []string{"? 0 0", reason + " 650 710", "? 2400 2440"} }
	for name, tc := range map[string]struct {
		trouble http.HandlerFunc
		busy    time.Duration // until when it is
		want    []string
	}{
		"it hangs":                       {hangs, 0, at("NotAnswering")},
		"it hangs, and is busy at last":  {hangs, 9 * time.Minute, at("NotAnswering")},
		"it hangs, and is busy":          {hangs, 14 * time.Minute, late("NotAnswering 840 880")},
		"it hangs, and is busy for long": {hangs, 30 * time.Minute, late("NotAnswering 900 1050")},
		"it fails, and is busy":          {fails.ServeHTTP, time.Hour, at("NotAnswering")},
		"it is a page, and is busy":      {page.ServeHTTP, time.Hour, at("NotMCP")},
		"it lets nobody in":              {plain(http.StatusUnauthorized).ServeHTTP, 0, []string{"? 0 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := act(t, func(s *scene, _ int) http.HandlerFunc {
					if now := time.Since(s.began); now > from && now < to {
						return tc.trouble
					}
					return nil
				})
				told := &several{began: s.began, busy: tc.busy}
				s.Asked = told
				s.play(t.Context(), time.Hour)
				if s.told = told.told; !s.within(tc.want...) {
					t.Errorf("callers are told %q, want %q", told.told, tc.want)
				}
			})
		})
	}
}
