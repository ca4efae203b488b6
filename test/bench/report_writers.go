package main

import (
	"fmt"
	"slices"
	"strings"
)

// guarded are the 409s to Freehold's claims and to its gate, which send the resourceVersion that they were decided on:
// no other apply of a status or of an existing Deployment does.
func (s Step) guarded() (claims, gate int) {
	of := func(resource string) int {
		return s.Counts.where(func(c Count) bool { return c.Verb == "apply" && c.Resource == resource }).sum().Conflicts
	}
	return of("mcpservers/status"), of("deployments")
}

// sent is how often a verb was.
func (c Counts) sent(verb string) int {
	return c.where(func(c Count) bool { return c.Verb == verb }).sum().Requests
}

// steps are those of a scenario.
func (r *Report) steps(scenario string) []Step {
	return slices.DeleteFunc(slices.Clone(r.Steps), func(s Step) bool { return s.Scenario != scenario })
}

// ownership is what was lost, and what was answered 409, beside each subject, and of which writer.
func (r *Report) ownership(text *strings.Builder) {
	steps := r.steps("ownership")
	table(text, "ownership\tsubject\tforeign writes\tlost fields\t409 to the subject\tof them claims\tand the gate\t409 "+
		"to foreign writers\tto controllers and runners\trequests\twrites\tget\tcreate\tapply\tpatch\tupdate\t", steps,
		func(s Step) string {
			claims, gate := s.guarded()
			return fmt.Sprintf("%s\t%s\t%.0f\t%.0f\t%d\t%d\t%d\t%.0f\t%.0f\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t", s.Step, s.Subject,
				s.Values["writes"], s.Values["lost"],
				s.Counts.sum().Conflicts, claims, gate, s.Values["conflicts"],
				s.Values["answers409"]-s.Values["conflicts"]-float64(s.Counts.sum().Conflicts), s.Counts.sum().Requests,
				s.Counts.writes().sum().Requests,
				s.Counts.sent("get"), s.Counts.sent("create"), s.Counts.sent("apply"), s.Counts.sent("patch"),
				s.Counts.sent("update"))
		})
	if len(steps) == 0 {
		return
	}
	head := "foreign writer\tby\t"
	for _, subject := range owners {
		head += fmt.Sprintf("lost beside %s\t409\t", subject)
	}
	fmt.Fprintf(text, "both steps, drawn by seed %d\n", r.Seed)
	table(text, head, slices.Concat(onServers(), onChildren()), func(h writer) string {
		row := h.name + "\t" + h.write.name + "\t"
		for _, subject := range owners {
			lost, conflicts := 0.0, 0.0
			for _, s := range steps {
				if s.Subject == subject {
					lost, conflicts = lost+s.Values["lost "+h.name], conflicts+s.Values["conflicts "+h.name]
				}
			}
			row += fmt.Sprintf("%.0f\t%.0f\t", lost, conflicts)
		}
		return row
	})
}

// cost is what one object cost in all passes of a step.
func (r *Report) cost(text *strings.Builder) {
	table(text, "cost\tmethod\tobjects\tpasses\tan object: requests\tbytes sent\treceived\tCPU ms: API "+
		"server\tetcd\tmethod\t", r.steps("cost"), func(s Step) string {
		all, objects := s.Counts.sum(), s.Values["objects"]
		return fmt.Sprintf("%s\t%s\t%.0f\t%.0f\t%.2f\t%.0f\t%.0f\t%.2f\t%.2f\t%.2f\t", s.Step, s.Subject, objects,
			s.Values["passes"],
			float64(all.Requests)/objects, float64(all.Sent)/objects, float64(all.Received)/objects,
			s.CPU["kube-apiserver"]*1000/objects, s.CPU["etcd"]*1000/objects, s.CPU["subject"]*1000/objects)
	})
}
