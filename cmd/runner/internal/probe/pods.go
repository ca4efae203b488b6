package probe

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// Asked is the backend that is asked, as the proxy knows it. The zero Addr is any pod.
type Asked interface {
	// Pods are those that are ready: none where that is not known, or where the backend has none.
	Pods(ctx context.Context) []netip.Addr
	// LastAnswer is when one last answered a call of a client, zero for never.
	LastAnswer(pod netip.Addr) time.Time
	// LeaveOut has what begins go to others than these, as long as there are others.
	LeaveOut(pods []netip.Addr)
	// Down has callers be told why no pod answers, and with empty words that one may again.
	Down(reason, message string)
	// IsBusy reports whether a call of a client that has connected is on its way.
	IsBusy() bool
}

// places are the pods that can be asked, the zero Addr where they are not known apart.
func (p *Prober) places(ctx context.Context) []netip.Addr {
	if p.Asked != nil {
		if all := p.Asked.Pods(ctx); len(all) > 0 {
			return all
		}
	}
	return []netip.Addr{{}}
}

// place is the pod that is asked what the backend is: that which has answered, else another one each time.
func (p *Prober) place(ctx context.Context) netip.Addr {
	all := p.places(ctx)
	if slices.Contains(all, p.answered) {
		return p.answered
	}
	return all[p.failed%len(all)]
}

// tried takes note of whether a pod has answered what the backend is.
func (p *Prober) tried(at netip.Addr, answered bool) {
	if p.answered = at; !answered {
		p.answered = netip.Addr{}
		p.failed++
	}
}

// learned takes note of what the pod has said that was asked what the backend is.
func (p *Prober) learned(seen pods, says conditions.Finding) verdict {
	if len(seen) == 0 {
		return verdict{says, says}
	}
	now := time.Now()
	seen[p.answered] = &pod{
		at: p.answered, is: says, asked: now, next: now.Add(watchingOf(p.Server).waits(false, p.pause)),
	}
	return seen.verdict(p.Server, verdict{says, says})
}

// lastAnswer is when a pod last answered a call of a client.
func (p *Prober) lastAnswer(at netip.Addr) time.Time {
	if p.Asked == nil {
		return time.Time{}
	}
	return p.Asked.LastAnswer(at)
}

// heard reports whether a pod has answered a call of a client since it was asked.
func (p *Prober) heard(pod *pod) bool { return p.lastAnswer(pod.at).After(pod.asked) }

// pod is what is known of one that is asked on.
type pod struct {
	at netip.Addr
	// is what is known for good.
	is conditions.Finding
	// refuses is the reason for which one that answers callers does not answer the question.
	refuses string
	// late says that the last question got no answer in time.
	late bool
	// failed is how many questions in a row had no answer, or not that of before.
	failed int32
	// asked is when it was asked, and next when it is asked again.
	asked, next time.Time
}

func (p *pod) isUp() bool { return p.is.Status == metav1.ConditionTrue }

// heard takes note of a client's call that was answered.
func (p *pod) heard(run runconfig.Target) {
	switch p.failed = 0; {
	case p.isUp():
	case p.is.Reason == v1alpha1.ReasonNotAnswering:
		p.is, p.refuses = answers(run), ""
	default: // what is wrong may be the question, and is so still
		p.is, p.refuses = answersCallersAlone(run), p.is.Reason
	}
}

// found takes note of what a question found. It reports whether it was answered as MCP has it.
func (p *pod) found(run runconfig.Target, found conditions.Finding, failures int32, log *slog.Logger) (answered bool) {
	isUp, works := found.Status == metav1.ConditionTrue, answers(run)
	switch {
	case found == works:
		p.is, p.refuses, p.failed = found, "", 0
		return true
	case found.Reason == "", // nothing can be known
		found == p.is, !isUp && found.Reason == p.refuses,
		isUp && p.isUp() && (p.is != works || found == tooMany(namesOf(run))):
		// One that lets the runner in as little as before may say so in other words.
		p.failed = 0
		return false
	}
	if p.failed++; p.failed < failures && (p.isUp() || !isUp) {
		return false
	}
	if !isUp {
		log.Info("the backend does not answer MCP any more", "pod", p.at, "detail", found.Message)
	}
	p.is, p.refuses, p.failed = found, "", 0
	return false
}

// pods are those of a backend, by address: the zero Addr where they are not known apart.
type pods map[netip.Addr]*pod

// keep keeps those that are there, and makes those that are new.
func (all pods) keep(there []netip.Addr, begin func(netip.Addr) *pod) {
	maps.DeleteFunc(all, func(at netip.Addr, _ *pod) bool { return !slices.Contains(there, at) })
	for _, at := range there {
		if all[at] == nil {
			all[at] = begin(at)
		}
	}
}

// down are those that do not answer.
func (all pods) down() (down []netip.Addr) {
	for at, pod := range all {
		if !pod.isUp() && at.IsValid() {
			down = append(down, at)
		}
	}
	return down
}

// someLate reports whether one has not answered its last question in time.
func (all pods) someLate() bool {
	for _, pod := range all {
		if pod.late {
			return true
		}
	}
	return false
}

// allFail reports whether none has answered its last question.
func (all pods) allFail() bool {
	for _, pod := range all {
		if pod.isUp() && pod.failed == 0 {
			return false
		}
	}
	return true
}

// verdict is what is said of a backend: finding is the condition, and base what those say of themselves by which it
// goes, which are those that answer if there are any.
type verdict struct{ finding, base conditions.Finding }

// verdict is what is said now. What was said last stands where there is more than one finding to choose from.
func (all pods) verdict(run runconfig.Target, last verdict) verdict {
	var up, down []conditions.Finding
	for _, pod := range all {
		if pod.isUp() {
			up = append(up, pod.is)
		} else {
			down = append(down, pod.is)
		}
	}
	of := func(findings []conditions.Finding) conditions.Finding {
		for _, first := range []conditions.Finding{answers(run), last.base} {
			if slices.Contains(findings, first) {
				return first
			}
		}
		return slices.MinFunc(findings, func(a, b conditions.Finding) int {
			return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
		})
	}
	switch {
	case len(up)+len(down) == 0:
		return last
	case len(up) == 0:
		base := of(down)
		return verdict{base, base}
	}
	base := of(up)
	if len(down) == 0 {
		return verdict{base, base}
	}
	do := "do"
	if len(down) == 1 {
		do = "does"
	}
	const partly = "%s, but %d of its %d pods %s not, and what begins goes to the others: %s"
	message := fmt.Sprintf(partly, base.Message, len(down), len(all), do, of(down).Message)
	return verdict{conditions.True(base.Reason, message), base}
}
