package main

import (
	"fmt"
	"slices"
)

// Target is a figure that must not be exceeded.
type Target struct {
	What     string  `json:"what"`
	Goal     float64 `json:"goal"`
	Measured float64 `json:"measured"`
	Met      bool    `json:"met"`
}

// megabyte is that of the targets.
const megabyte = 1e6

// noise is by how much memory may differ between two readings where nothing was to change it, in megabytes.
const noise = 3

// goal is a target that is not judged yet.
type goal struct {
	what    string
	goal    float64
	measure func(r *Report) (float64, bool)
}

func seconds(s Step) float64 { return s.Seconds }

func apiServer(s Step) float64 { return s.CPU["kube-apiserver"] }

// goals are the targets. Each reads the steps of a run and returns false if the run did not measure it.
func goals() []goal {
	requests := func(s Step) float64 { return float64(s.Counts.sum().Requests) }
	unguarded := func(s Step) float64 {
		claims, gate := s.guarded()
		return float64(s.Counts.sum().Conflicts - claims - gate)
	}
	writes := func(s Step) float64 { return float64(s.Counts.writes().sum().Requests) }
	return append(append(ofAChange(), ofATenant()...), []goal{
		{"converge 1: writes", 10, of("converge", "", 1, writes)},
		{"converge 1: of them status", 4, of("converge", "", 1, func(s Step) float64 { return float64(s.statusWrites()) })},
		{"converge 100: seconds", 5, of("converge", "", 100, seconds)},
		{"converge 500: seconds", 25, of("converge", "", 500, seconds)},
		{"converge 500: requests", 6000, of("converge", "", 500, requests)},
		{"converge 500: seconds, times the floor", 1.3, ratio("converge", "", 500, seconds)},
		{"converge 500: API server CPU, times the floor", 1.3, ratio("converge", "", 500, apiServer)},
		{"ownership, birth: lost fields", 0, of("ownership", "birth", 0, value("lost", 1))},
		{"ownership, birth: 409s to Freehold, claims and gate apart", 0, of("ownership", "birth", 0, unguarded)},
		{
			"ownership, birth: 409s to foreign writers that do not lock", 0,
			of("ownership", "birth", 0, value("unlocked conflicts", 1)),
		},
		{"ownership, life: lost fields", 0, of("ownership", "life", 0, value("lost", 1))},
		{"ownership, life: 409s to Freehold, claims and gate apart", 0, of("ownership", "life", 0, unguarded)},
		{
			"ownership, life: 409s to foreign writers that do not lock", 0,
			of("ownership", "life", 0, value("unlocked conflicts", 1)),
		},
		{"cost, at rest: requests", 0, of("cost", "rest", 0, requests)},
		{"cost, after others wrote: requests", 0, of("cost", "touched", 0, requests)},
		{
			"replicas of 100: requests a server", 3,
			of("life", "replicas", 100, func(s Step) float64 { return requests(s) / float64(s.Servers) }),
		},
		{"replicas of 100: pods that rolled", 0, of("life", "replicas", 100, value("podsRolled", 1))},
		// Updating, the number, the proxy, a pod less, a pod more, Ready: what is told, and nothing twice.
		{"image of 100: writes", 600, of("life", "image", 100, writes)},
		{"image of 100: seconds, times the floor", 1.3, ratio("life", "image", 100, seconds)},
		{"image of 100: API server CPU, times the floor", 1.3, ratio("life", "image", 100, apiServer)},
		{"restart with 601: writes", 0, of("life", "restart", 601, writes)},
		{"delete 601: seconds", 15, of("life", "delete", 601, seconds)},
		{"memory idle: MB", 40, of("memory", "idle", 0, value("resident", megabyte))},
		{"memory of 600: MB", 80, of("memory", "servers", 600, value("resident", megabyte))},
		{"memory of 400 foreign Secrets and ConfigMaps: MB more", noise, more},
		{"heap a server at 2000: KB", 60, of("converge", "", 2000, func(s Step) float64 {
			return (s.Values["heap"] - s.Values["idleHeap"]) / float64(s.Servers) / 1000
		})},
	}...)
}

// ofAChange are the targets of a configuration that changes.
func ofAChange() []goal {
	return []goal{
		// Ready down, the number, the proxy, Ready up; of the runner, its report and the number on the StatefulSet.
		{"policy of 100: writes to servers and their children", 400, of("config", "policy", 100, toServers)},
		{
			"policy of 100, as installed: requests", 600,
			of("config", "turns", 100, func(s Step) float64 { return float64(s.Counts.sum().Requests) }),
		},
		{"policy of 100: writes of the runners", 200, of("config", "policy", 100, value("runner writes", 1))},
		{"policy of 100: seconds, times the floor", 1.3, ratio("config", "policy", 100, seconds)},
		{"policy of 100: API server CPU, times the floor", 1.3, ratio("config", "policy", 100, apiServer)},
	}
}

// judge compares what was measured with the targets.
func (r *Report) judge() {
	for _, g := range goals() {
		if measured, ok := g.measure(r); ok {
			r.Targets = append(r.Targets, Target{What: g.what, Goal: g.goal, Measured: measured, Met: measured <= g.goal})
		}
	}
}

// of is the median of a figure of Freehold's over the rounds of a step; servers is zero where there is one size.
func of(scenario, step string, servers int, figure func(Step) float64) func(*Report) (float64, bool) {
	return func(r *Report) (float64, bool) { return r.median(scenario, step, freehold, servers, figure) }
}

func value(name string, unit float64) func(Step) float64 {
	return func(s Step) float64 { return s.Values[name] / unit }
}

// ratio is Freehold's median of a figure of a step over the floor's, of all in one go.
func ratio(scenario, step string, servers int, figure func(Step) float64) func(*Report) (float64, bool) {
	return func(r *Report) (float64, bool) {
		ours, ok := r.median(scenario, step, freehold, servers, figure)
		floor, also := r.median(scenario, step, "floor", servers, figure)
		return ours / floor, ok && also && floor > 0
	}
}

// more is what foreign objects added to the operator's memory.
func more(r *Report) (float64, bool) {
	before, ok := of("memory", "servers", 600, value("resident", megabyte))(r)
	after, also := of("memory", "foreign", 600, value("resident", megabyte))(r)
	return max(0, after-before), ok && also
}

func (r *Report) median(scenario, step, subject string, servers int, figure func(Step) float64) (float64, bool) {
	var all []float64
	for _, s := range r.Steps {
		if s.Scenario == scenario && s.Step == step && s.Subject == subject && (servers == 0 || s.Servers == servers) {
			all = append(all, figure(s))
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return all[len(all)/2], true
}

// String is a target on one line.
func (t Target) String() string {
	return fmt.Sprintf("%s: %s, goal ≤ %s", t.What, figure(t.Measured), figure(t.Goal))
}
