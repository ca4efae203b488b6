package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is everything that a run found.
type Report struct {
	Time     time.Time `json:"time"`
	Machine  Machine   `json:"machine"`
	Versions Versions  `json:"versions"`
	Settings settings  `json:"settings"`
	// Seed is what the order of foreign writes was drawn by.
	Seed    uint64   `json:"seed"`
	Targets []Target `json:"targets"`
	Steps   []Step   `json:"steps"`
}

// String is the report for a person.
func (r *Report) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, %d cores, %s, Linux %s\n", r.Machine.CPU, r.Machine.Cores, r.Machine.Memory, r.Machine.Kernel)
	fmt.Fprintf(&text, "Freehold %s, %s, Kubernetes %s, etcd %s\n", r.Versions.Freehold, r.Versions.Go,
		r.Versions.Kubernetes, r.Versions.Etcd)
	limit := "no limit of requests"
	if r.Settings.QPS >= 0 {
		limit = fmt.Sprintf("%.0f requests a second, %d at once", r.Settings.QPS, r.Settings.Burst)
	}
	fmt.Fprintf(&text, "%d workers, %s, priority queue %t\n\n", r.Settings.Workers, limit, r.Settings.PriorityQueue)
	measured := slices.DeleteFunc(slices.Clone(r.Steps),
		func(s Step) bool { return s.Counts == nil || s.Scenario == "cost" })
	table(&text, "scenario\tstep\tsubject\tservers\tseconds\trequests\twrites\tstatus\tevents\t409\tKB sent\tKB "+
		"received\tCPU s: API server\tetcd\tcontrollers\tsubject\t", measured, func(s Step) string {
		all := s.Counts.sum()
		return fmt.Sprintf("%s\t%s\t%s\t%d\t%.2f\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t", s.Scenario, s.Step,
			s.Subject, s.Servers, s.Seconds,
			all.Requests, s.Counts.writes().sum().Requests, s.statusWrites(), s.events(), all.Conflicts, all.Sent/1000,
			all.Received/1000,
			s.CPU["kube-apiserver"], s.CPU["etcd"], s.CPU["kube-controller-manager"], s.CPU["subject"])
	})
	r.requests(&text)
	r.ownership(&text)
	r.rollouts(&text)
	r.cost(&text)
	r.tenant(&text)
	r.watches(&text)
	table(&text, "target\tgoal\tmeasured\tmet\t", r.Targets, func(t Target) string {
		met := "yes"
		if !t.Met {
			met = "NO"
		}
		return fmt.Sprintf("%s\t≤ %s\t%s\t%s\t", t.What, figure(t.Goal), figure(t.Measured), met)
	})
	return text.String()
}

// requests are those of each subject's last converge of at most 500 servers, by verb and resource.
func (r *Report) requests(text *strings.Builder) {
	type row struct {
		subject string
		servers int
		count   Count
	}
	last := map[string]Step{}
	for _, s := range r.Steps {
		if s.Scenario == "converge" && s.Servers <= 500 {
			last[s.Subject] = s
		}
	}
	var rows []row
	for _, subject := range slices.Sorted(maps.Keys(last)) {
		for _, c := range last[subject].Counts {
			rows = append(rows, row{subject, last[subject].Servers, c})
		}
	}
	table(text, "subject\tservers\tverb\tresource\trequests\ta server\t409\trefused\tKB sent\tKB received\t", rows,
		func(r row) string {
			return fmt.Sprintf("%s\t%d\t%s\t%s\t%d\t%.2f\t%d\t%d\t%d\t%d\t", r.subject, r.servers, r.count.Verb,
				r.count.Resource, r.count.Requests,
				float64(r.count.Requests)/float64(r.servers), r.count.Conflicts, r.count.Refused, r.count.Sent/1000,
				r.count.Received/1000)
		})
}

// table writes rows under a head, if there are any.
func table[T any](text *strings.Builder, head string, all []T, line func(T) string) {
	if len(all) == 0 {
		return
	}
	w := tabwriter.NewWriter(text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, head)
	for _, one := range all {
		fmt.Fprintln(w, line(one))
	}
	_ = w.Flush() // into memory
	text.WriteByte('\n')
}

// figure is a number without decimals that nobody reads.
func figure(f float64) string {
	switch {
	case f == float64(int64(f)):
		return fmt.Sprintf("%d", int64(f))
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

func (s Step) statusWrites() int {
	return s.Counts.writes().where(func(c Count) bool { return c.Resource == "mcpservers/status" }).sum().Requests
}

func (s Step) events() int {
	return s.Counts.where(func(c Count) bool { return c.Resource == "events" && c.Verb != "watch" && c.Verb != "list" }).
		sum().Requests
}

// write puts the report into a directory as JSON, under its time and as latest.
func (r *Report) write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	for _, name := range []string{r.Time.Format("2006-01-02T15-04-05"), "latest"} {
		if err := os.WriteFile(filepath.Join(dir, name+".json"), append(text, '\n'), 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	return nil
}
