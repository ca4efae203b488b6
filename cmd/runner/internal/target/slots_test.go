package target

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/cmd/runner/internal/era"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Calls go where the server's status says, as far as it was seen.
func TestCallsGoWhereTheStatusSays(t *testing.T) {
	in := func(slot int32, hash string, generation int64, path string, speaks v1alpha1.Transport) v1alpha1.BackendContent {
		return v1alpha1.BackendContent{
			Slot: slot, Hash: hash, Generation: generation, Port: 8080, Path: path, Transport: speaks,
		}
	}
	old, next := in(1, "old", 3, "/mcp", v1alpha1.TransportStreamableHTTP),
		in(2, "next", 4, "/v2", v1alpha1.TransportStdio)
	same := in(1, "same", 4, "/mcp", v1alpha1.TransportStreamableHTTP)
	moved := in(1, "moved", 4, "/v2", v1alpha1.TransportStdio)
	tried := in(2, "tried", 5, "/mcp", v1alpha1.TransportStreamableHTTP)
	third := in(1, "third", 5, "/mcp", v1alpha1.TransportSSE)
	again := in(2, "again", 6, "/v2", v1alpha1.TransportStdio)
	http := in(2, "http", 6, "/mcp", v1alpha1.TransportStreamableHTTP)
	both := func(first, second string) map[workload.Slot]backend.Stands {
		return map[workload.Slot]backend.Stands{1: {Runs: first + "/1", Hash: first}, 2: {Runs: second + "/1", Hash: second}}
	}
	others := func(all ...v1alpha1.BackendContent) []v1alpha1.BackendContent { return all }
	const oldLane, nextLane = "1 old at echo-backend:9443/mcp", "2 next at echo-slot2:9443/v2 bridged shown"
	for name, tc := range map[string]struct {
		config Config
		seen   []backend.Standing
		want   string // the upstreams at last, the active first, and whether its lane is another one than at first
	}{
		"nothing was seen": {seen: []backend.Standing{{}}},
		"no pointer":       {seen: []backend.Standing{{Slots: both("old", "")}}},
		"an address of one's own": {
			config: Config{Backend: "http://127.0.0.1:1"}, seen: []backend.Standing{{Active: &old}},
		},
		"the first slot": {seen: []backend.Standing{{Active: &old}}, want: oldLane},
		"all pods are of its content": {
			seen: []backend.Standing{{Active: &old, Slots: both("old", "")}},
			want: oldLane + " alone",
		},
		"its pods are of other content": {
			seen: []backend.Standing{{Active: &old, Slots: both("older", "")}},
			want: oldLane,
		},
		"the second": {seen: []backend.Standing{{Active: &next}}, want: nextLane},
		"no pointer, and what is assumed": {
			seen: []backend.Standing{{Assumed: &next}, {Slots: both("old", "next")}}, want: "assumed " + nextLane + " alone",
		},
		"what was assumed before is said": {
			seen: []backend.Standing{{Assumed: &next}, {Active: &old}}, want: oldLane + "; a new lane",
		},
		"what is assumed after it was said": {
			seen: []backend.Standing{{Active: &old}, {Assumed: &next}}, want: oldLane,
		},
		"a candidate in the place of an earlier one": {
			seen: []backend.Standing{
				{Active: &same, Others: others(next)}, {Active: &same, Others: others(tried)}, {Active: &tried},
			},
			want: "2 tried at echo-slot2:9443/mcp; a new lane",
		},
		"a candidate": {
			seen: []backend.Standing{{Active: &old, Others: others(next)}},
			want: oldLane + ", " + nextLane,
		},
		"the switch": {
			seen: []backend.Standing{{Active: &old, Others: others(next)}, {Active: &next, Others: others(old)}},
			want: nextLane + ", " + oldLane + "; a new lane",
		},
		"what is older than what is known": {
			seen: []backend.Standing{{Active: &next, Others: others(old)}, {Active: &old}},
			want: nextLane + ", " + oldLane,
		},
		"in its place": {
			seen: []backend.Standing{{Active: &old}, {Active: &same}}, want: "1 same at echo-backend:9443/mcp",
		},
		"in its place, before its pods stand": {
			seen: []backend.Standing{{Active: &old, Slots: both("old", "")}, {Active: &moved, Slots: both("old", "")}},
			want: "1 moved at echo-backend:9443/mcp",
		},
		"in its place, while its pods come": {
			seen: []backend.Standing{{Active: &old, Slots: both("old", "")}, {Active: &moved, Slots: both("", "")}},
			want: "1 moved at echo-backend:9443/mcp",
		},
		"in its place, with its pods": {
			seen: []backend.Standing{{Active: &old, Slots: both("old", "")}, {Active: &moved, Slots: both("moved", "")}},
			want: "1 moved at echo-backend:9443/v2 bridged shown alone",
		},
		"in its place, and no bridge any more": {
			seen: []backend.Standing{{Active: &next, Slots: both("", "next")}, {Active: &http, Slots: both("", "next")}},
			want: "2 http at echo-slot2:9443/v2 bridged",
		},
		"in its place, of bridges both": {
			seen: []backend.Standing{{Active: &next, Slots: both("", "next")}, {Active: &again, Slots: both("", "next")}},
			want: "2 again at echo-slot2:9443/v2 bridged shown",
		},
		"a candidate with a bridge, in the place of one without": {
			seen: []backend.Standing{
				{Active: &same, Others: others(tried), Slots: both("same", "tried")}, {Active: &same, Others: others(again)},
			},
			want: "1 same at echo-backend:9443/mcp alone, 2 again at echo-slot2:9443/v2 bridged",
		},
		"both in one place": {
			seen: []backend.Standing{{Active: &same, Others: others(old)}}, want: "1 same at echo-backend:9443/mcp",
		},
		"the first slot was gone": {
			seen: []backend.Standing{{Active: &old}, {Active: &next}, {Active: &third}},
			want: "1 third at echo-backend:9443/mcp bridged shown; a new lane",
		},
		"the status is lost": {
			seen: []backend.Standing{{Active: &next}, {}}, want: nextLane,
		},
	} {
		tc.config.Run, tc.config.StateDir = sample(), t.TempDir()
		to := made(t, tc.config)
		config, _, err := to.Proxy(slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		front := proxy.New(proxy.Process{}, map[string]proxy.Config{"/mcp": config})
		var first *proxy.Upstream
		got := ""
		to.Follow(func(upstreams proxy.Upstreams) {
			var told []string
			for _, u := range append([]*proxy.Upstream{upstreams.Active}, upstreams.Others...) {
				told = append(told, laneOf(u))
			}
			now := to.slots.known[workload.Slot(upstreams.Active.Slot)].upstream
			if first = cmp.Or(first, now); now != first {
				told[len(told)-1] += "; a new lane"
			}
			if !upstreams.Stated {
				told[0] = "assumed " + told[0]
			}
			got = strings.Join(told, ", ")
			front.Switch("/mcp", upstreams)
		}, nil, slog.New(slog.DiscardHandler))
		for _, standing := range tc.seen {
			to.Observe(standing)
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// laneOf is an upstream in words.
func laneOf(u *proxy.Upstream) string {
	lane := fmt.Sprintf("%d %s at %s%s", u.Slot, u.Hash, u.Host(), u.Path)
	if u.Bridged {
		lane += " bridged"
	}
	if u.Shown {
		lane += " shown"
	}
	if u.Alone {
		lane += " alone"
	}
	return lane
}

// What pods run is known of each slot by itself.
func TestWhatRunsIsKnownOfEachSlot(t *testing.T) {
	to := made(t, Config{Run: sample()})
	old, next := v1alpha1.BackendContent{Slot: 1, Hash: "old"}, v1alpha1.BackendContent{Slot: 2, Hash: "next"}
	to.Observe(backend.Standing{
		Active: &old, Others: []v1alpha1.BackendContent{next},
		Slots: map[workload.Slot]backend.Stands{
			1: {Runs: "a", PodPort: 8080}, 2: {PodPort: 9441},
		},
	})
	for slot, want := range map[workload.Slot]struct {
		runs string
		port int32
	}{1: {"a", 8080}, 2: {era.Mixed, 9441}} {
		p := to.slots.known[slot]
		u := p.upstream.Holds(proxy.Content{Slot: int32(slot)})
		if got := to.runsAt(u)(); got != want.runs || p.openPort.Load() != want.port {
			t.Errorf("slot %d: %q at port %d", slot, got, p.openPort.Load())
		}
	}
}

// A backend that checks Host knows itself as localhost with the port of its own content, unless it is to see the
// client's.
func TestWhichHostABackendSees(t *testing.T) {
	for client, want := range map[bool][]string{false: {"localhost:3000", "localhost:8080"}, true: {"", ""}} {
		run := sample(func(r *runconfig.Target) { r.Proxy.ClientHost = client })
		to := made(t, Config{Run: run})
		var got proxy.Upstreams
		to.Follow(func(all proxy.Upstreams) { got = all }, nil, slog.New(slog.DiscardHandler))
		in := func(slot, port int32) v1alpha1.BackendContent {
			return v1alpha1.BackendContent{
				Slot: slot, Hash: "a", Generation: 1, Port: port, Path: "/mcp", Transport: v1alpha1.TransportStreamableHTTP,
			}
		}
		active := in(1, 3000)
		to.Observe(backend.Standing{Active: &active, Others: []v1alpha1.BackendContent{in(2, 8080)}})
		if hosts := []string{got.Active.ToldHost, got.Others[0].ToldHost}; !slices.Equal(hosts, want) {
			t.Errorf("the client's %t: told %q, want %q", client, hosts, want)
		}
	}
}
