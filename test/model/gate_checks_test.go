package model

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

const (
	rolledBack     rule = "within one uid a workload generation went back"
	overwritten    rule = "content was replaced under the same workload generation"
	unclaimed      rule = "content stands that was not claimed under its workload generation"
	bornUnreported rule = "content was born before its generation was reported"
	unsoundWrote   rule = "a runner wrote whose environment, file and content disagree"
	wroteAfterTerm rule = "a runner wrote after SIGTERM"
	statedReplicas rule = "a runner stated replicas"
	replaced       rule = "pods were replaced though their content is the same"
	wrongAtRest    rule = "at rest something else stands than the highest living runner's content"
	asked          rule = "a runner sent a request although nothing happened"
	wrongReport    rule = "at rest the report is wrong"
)

// gate holds the gate's invariants against all that runners do. A nil gate holds none.
type gate struct {
	scenario *scenario
	// slot is where the run's runners have the backend.
	slot workload.Slot
	// calm is the step before which nobody interferes with a rollout.
	calm      int
	revisions map[key]standing
	// pods are the templates that were sent, by what they run.
	pods map[string]string
}

type standing struct {
	uid      types.UID
	revision revision.Revision
}

// sends judges a write of a runner as it goes out.
func (g *gate) sends(o *operation) {
	if g == nil || o.by == nil {
		return
	}
	a, j := o.by, g.scenario.checker
	if a.env != asFile {
		j.found(unsoundWrote, "%s by %s with environment %q", o, a.name, a.env)
	}
	if a.terminated {
		j.found(wroteAfterTerm, "%s by %s", o, a.name)
	}
	if o.content == nil {
		return
	}
	if _, stated, _ := unstructured.NestedFieldNoCopy(o.content.Object, "spec", "replicas"); stated && o.by.isRunner() &&
		g.scenario.slotOf(o.of) != 0 {
		j.found(statedReplicas, "%s by %s", o, a.name)
	}
	template, ok, _ := unstructured.NestedMap(o.content.Object, "spec", "template")
	if ok && o.of.kind == contract.StatefulSet.Kind {
		hash, _, _ := unstructured.NestedString(template, "metadata", "annotations", workload.AnnotationBackendHash)
		runs, sent := o.of.name+" "+hash, fmt.Sprint(template)
		if before, ok := g.pods[runs]; ok && before != sent {
			j.found(replaced, "%s wrote %s after %s", a.name, sent, before)
		}
		g.pods[runs] = sent
	}
}

// sees judges what stands after a write.
func (g *gate) sees(write *operation) {
	if g == nil || g.scenario.slotOf(write.of) == 0 {
		return
	}
	k := write.of
	o, j := g.scenario.world.stands[k], g.scenario.checker
	if o == nil {
		delete(g.revisions, k)
		return
	}
	rev, err := revision.Of(o.GetAnnotations())
	if err != nil {
		j.found(wrongAtRest, "%s has a broken revision: %v", k, err)
		return
	}
	status := g.scenario.serverStatus()
	w := status.Workload
	if rev.Generation > 0 && (w == nil || w.Generation < rev.Generation ||
		w.Generation == rev.Generation && w.Hash != rev.Hash) {
		j.found(unclaimed, "%s at %d", k, rev.Generation)
	}
	last := g.revisions[k]
	if rev.Generation == 0 && last.uid == o.GetUID() {
		// A revision that was stripped: what stands is as old as it was. Where the
		// number was claimed twice, it is anybody's of that number, as a birth is.
		last.revision.Hash = ""
		g.revisions[k] = last
		return
	}
	g.revisions[k] = standing{o.GetUID(), rev}
	switch {
	case last.uid != o.GetUID():
		// Of content that it keeps, which is not its own, a runner makes no report.
		keeps := write.by != nil && write.by.revision.Generation > rev.Generation
		if !keeps && (status.Runtime == nil || status.Runtime.Generation < rev.Generation) {
			j.found(bornUnreported, "%s at %d", k, rev.Generation)
		}
	case rev.Generation < last.revision.Generation:
		j.found(rolledBack, "%s from %d to %d", k, last.revision.Generation, rev.Generation)
	case rev.Generation == last.revision.Generation && rev != last.revision && last.revision.Hash != "":
		j.found(overwritten, "%s at %d", k, rev.Generation)
	}
}

// serverStatus is the status of the run's server.
func (p *scenario) serverStatus() v1alpha1.MCPServerStatus {
	server := &v1alpha1.MCPServer{}
	p.typed(p.server(), server)
	return server.Status
}

// highest are the living runners of the highest generation that may write.
func (g *gate) highest() []*process {
	var best []*process
	claimed := g.scenario.serverStatus().Workload
	for _, a := range g.scenario.processes {
		m := a.revision
		entitled := a.alive() && a.env == asFile && (claimed.Generation != m.Generation || claimed.Hash == m.Hash)
		switch {
		case !entitled || len(best) > 0 && m.Generation < best[0].revision.Generation:
		case len(best) > 0 && m.Generation == best[0].revision.Generation:
			best = append(best, a)
		default:
			best = []*process{a}
		}
	}
	return best
}

// rest judges what stands when no runner has anything to do.
func (g *gate) rest() {
	p := g.scenario
	highest := g.highest()
	if len(highest) == 0 {
		return
	}
	generation := highest[0].revision.Generation
	runtime := p.serverStatus().Runtime
	if runtime != nil && runtime.Generation > generation {
		return // a newer runner reported and is gone; what is older may not go on
	}
	set := &appsv1.StatefulSet{}
	if !p.typed(p.backendObjects()[0], set) {
		p.checker.found(wrongAtRest, "there is no StatefulSet; the highest living runner has %d", generation)
		return
	}
	rev, err := revision.Of(set.Annotations)
	if err != nil || rev.Generation != generation {
		p.checker.found(wrongAtRest, "the StatefulSet carries %d, the highest living runner has %d", rev.Generation,
			generation)
		return
	}
	i := slices.IndexFunc(highest, func(a *process) bool { return a.revision == rev })
	if i < 0 || g.rivalry() {
		return // the number was claimed twice; only a higher one ends that
	}
	g.content(highest[i], set)
	g.report(rev)
}

// rivalry reports whether two contents stand under one number.
func (g *gate) rivalry() bool {
	hashes := map[int64]string{}
	for _, s := range g.revisions {
		if hash, ok := hashes[s.revision.Generation]; ok && hash != s.revision.Hash {
			return true
		}
		hashes[s.revision.Generation] = s.revision.Hash
	}
	return false
}

// content judges whether all that stands is one runner's.
func (g *gate) content(a *process, set *appsv1.StatefulSet) {
	p := g.scenario
	if got := set.Spec.Template.Spec.Containers[0].Args; !slices.Equal(got, a.run.Backend.Args) {
		p.checker.found(wrongAtRest, "the StatefulSet runs %q, its revision means %q", got, a.run.Backend.Args)
	}
	if set.Labels[workload.LabelName] != p.name {
		p.checker.found(wrongAtRest, "the StatefulSet's labels are %v", set.Labels)
	}
	for name, want := range map[string]int32{
		g.slot.Name(p.name):         a.run.Backend.Port,
		g.slot.HeadlessName(p.name): a.run.Backend.PodPort(),
	} {
		service := &corev1.Service{}
		if !p.typed(p.child(contract.Service, name), service) {
			p.checker.found(wrongAtRest, "there is no Service %s", name)
			continue
		}
		rev := g.revisions[key{contract.Service.Kind, name}].revision
		// The port of the content is the last one, behind that at which proxies call.
		port := service.Spec.Ports[len(service.Spec.Ports)-1].Port
		// A Service keeps its revision while it says the same.
		if rev.Generation > a.revision.Generation || rev.Generation == a.revision.Generation && rev != a.revision ||
			port != want || service.Labels[workload.LabelName] != p.name {
			p.checker.found(wrongAtRest, "the Service %s carries %d, port %d and labels %v; the StatefulSet carries %d",
				name, rev.Generation, port, service.Labels, a.revision.Generation)
		}
	}
}

func (g *gate) report(rev revision.Revision) {
	status, j := g.scenario.serverStatus(), g.scenario.checker
	if status.Runtime == nil {
		j.found(wrongReport, "there is no status.runtime, the backend carries %d", rev.Generation)
		return
	}
	learned := slices.ContainsFunc(g.highest(), func(a *process) bool { return a.learned && a.revision == rev })
	if learned && status.Runtime.Tools == nil {
		j.found(wrongReport, "what was learned of %d is not reported", rev.Generation)
	}
	if status.Runtime.Generation != rev.Generation || status.Runtime.ServerUID != string(g.scenario.server().GetUID()) {
		j.found(wrongReport, "status.runtime is %v, the backend carries %d", status.Runtime, rev.Generation)
	}
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionBackendApplied)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonApplied {
		j.found(wrongReport, "the condition is %v, the backend carries %d", c, rev.Generation)
	}
}
