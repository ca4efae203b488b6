package gate

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// rule is one invariant, named by its violation.
type rule string

const (
	rolledBack     rule = "within one uid a workload generation went back"
	clobbered      rule = "content was replaced under the same workload generation"
	unclaimed      rule = "content stands that was not claimed under its workload generation"
	bornUnreported rule = "content was born before its generation was reported"
	unsoundWrote   rule = "a runner wrote whose environment, file and content disagree"
	wroteAfterTerm rule = "a runner wrote after SIGTERM"
	statedReplicas rule = "a runner stated replicas"
	replaced       rule = "pods were replaced though their content is the same"
	noRest         rule = "the runners never come to rest"
	wrongAtRest    rule = "at rest something else stands than the highest living runner's content"
	notQuiet       rule = "a runner sent a request although nothing happened"
	wrongReport    rule = "at rest the report is wrong"
)

// checker holds the invariants against all that happens.
type checker struct {
	scenario  *scenario
	revisions map[string]standing
	// pods are the templates that were sent, by what they run.
	pods     map[string]string
	findings []finding
}

type standing struct {
	uid      types.UID
	revision revision.Revision
}

type finding struct {
	rule rule
	what string
}

func (j *checker) found(r rule, format string, args ...any) {
	j.findings = append(j.findings, finding{r, fmt.Sprintf(format, args...)})
	j.scenario.note("VIOLATION: %s: %s", r, fmt.Sprintf(format, args...))
}

// violated reports whether a rule was broken.
func (j *checker) violated(r rule) bool {
	return slices.ContainsFunc(j.findings, func(f finding) bool { return f.rule == r })
}

// sent judges a write as it goes out.
func (j *checker) sent(a *process, r request) {
	what := strings.TrimSpace(r.GetKind() + " " + r.subresource)
	if !a.sound() {
		j.found(unsoundWrote, "%s with environment %q wrote %s", a.name, a.env, what)
	}
	if a.terminated {
		j.found(wroteAfterTerm, "%s wrote %s", a.name, what)
	}
	if _, stated, _ := unstructured.NestedFieldNoCopy(r.Object, "spec", "replicas"); stated {
		j.found(statedReplicas, "%s on %s", a.name, what)
	}
	if template, ok, _ := unstructured.NestedMap(r.Object, "spec", "template"); ok {
		runs, sent := strings.Join(a.run.Backend.Args, " "), fmt.Sprint(template)
		if before, ok := j.pods[runs]; ok && before != sent {
			j.found(replaced, "%s wrote %s after %s", a.name, sent, before)
		}
		j.pods[runs] = sent
	}
}

// sees judges what stands after a change.
func (j *checker) sees(key string, o client.Object) {
	if o == nil || strings.HasPrefix(key, "MCPServer/") {
		delete(j.revisions, key)
		return
	}
	rev, err := revision.Of(o.GetAnnotations())
	if err != nil {
		j.found(wrongAtRest, "%s has a broken revision: %v", key, err)
		return
	}
	if claimed := j.scenario.status().Workload; claimed.Generation < rev.Generation || claimed.Generation == rev.Generation && claimed.Hash != rev.Hash {
		j.found(unclaimed, "%s at %d", key, rev.Generation)
	}
	last := j.revisions[key]
	if rev.Generation == 0 && last.uid == o.GetUID() {
		// A revision that was stripped: what stands is as old as it was. Where the
		// number was claimed twice, it is anybody's of that number, as a birth is.
		last.revision.Hash = ""
		j.revisions[key] = last
		return
	}
	now := standing{o.GetUID(), rev}
	j.revisions[key] = now
	if last.uid != now.uid {
		if runtime := j.scenario.status().Runtime; runtime == nil || runtime.Generation < rev.Generation {
			j.found(bornUnreported, "%s at %d", key, rev.Generation)
		}
		return
	}
	switch {
	case rev.Generation < last.revision.Generation:
		j.found(rolledBack, "%s from %d to %d", key, last.revision.Generation, rev.Generation)
	case rev.Generation == last.revision.Generation && rev != last.revision && last.revision.Hash != "":
		j.found(clobbered, "%s at %d", key, rev.Generation)
	}
}

// highest are the living runners of the highest generation that may write.
func (j *checker) highest() []*process {
	var best []*process
	claimed := j.scenario.status().Workload
	for _, a := range j.scenario.processes {
		m := a.revision()
		entitled := a.alive() && a.sound() && (claimed.Generation != m.Generation || claimed.Hash == m.Hash)
		switch {
		case !entitled || len(best) > 0 && m.Generation < best[0].revision().Generation:
		case len(best) > 0 && m.Generation == best[0].revision().Generation:
			best = append(best, a)
		default:
			best = []*process{a}
		}
	}
	return best
}

// rest judges what stands when no runner has anything to do.
func (j *checker) rest() {
	p := j.scenario
	highest := j.highest()
	if len(highest) == 0 {
		return
	}
	generation := highest[0].revision().Generation
	runtime := p.status().Runtime
	if runtime != nil && runtime.Generation > generation {
		return // a newer runner reported and is gone; what is older may not go on
	}
	set := p.statefulSet()
	if set == nil {
		j.found(wrongAtRest, "there is no StatefulSet; the highest living runner has %d", generation)
		return
	}
	rev, err := revision.Of(set.Annotations)
	if err != nil || rev.Generation != generation {
		j.found(wrongAtRest, "the StatefulSet carries %d, the highest living runner has %d", rev.Generation, generation)
		return
	}
	i := slices.IndexFunc(highest, func(a *process) bool { return a.revision() == rev })
	if i < 0 || j.rivalry() {
		return // the number was claimed twice; only a higher one ends that
	}
	j.content(highest[i])
	j.report(rev)
}

// rivalry reports whether two contents stand under one number.
func (j *checker) rivalry() bool {
	hashes := map[int64]string{}
	for _, s := range j.revisions {
		if hash, ok := hashes[s.revision.Generation]; ok && hash != s.revision.Hash {
			return true
		}
		hashes[s.revision.Generation] = s.revision.Hash
	}
	return false
}

// content judges whether all that stands is one runner's.
func (j *checker) content(a *process) {
	p := j.scenario
	set := p.statefulSet()
	if got := set.Spec.Template.Spec.Containers[0].Args; !slices.Equal(got, a.run.Backend.Args) {
		j.found(wrongAtRest, "the StatefulSet runs %q, its revision means %q", got, a.run.Backend.Args)
	}
	if set.Labels[workload.LabelName] != p.name {
		j.found(wrongAtRest, "the StatefulSet's labels are %v", set.Labels)
	}
	for _, name := range []string{workload.BackendName(p.name), workload.HeadlessName(p.name)} {
		service := p.service(name)
		if service == nil {
			j.found(wrongAtRest, "there is no Service %s", name)
			continue
		}
		rev := j.revisions["Service/"+name].revision
		// The port of the content is the last one, behind that at which proxies call.
		port := service.Spec.Ports[len(service.Spec.Ports)-1].Port
		// A Service keeps its revision while nothing but the proxy's half is new.
		if rev.Generation > a.revision().Generation || rev.Generation == a.revision().Generation && rev != a.revision() ||
			port != a.run.Backend.Port || service.Labels[workload.LabelName] != p.name {
			j.found(wrongAtRest, "the Service %s carries %d, port %d and labels %v; the StatefulSet carries %d",
				name, rev.Generation, port, service.Labels, a.revision().Generation)
		}
	}
}

func (j *checker) report(rev revision.Revision) {
	status := j.scenario.status()
	if status.Runtime == nil {
		j.found(wrongReport, "there is no status.runtime, the backend carries %d", rev.Generation)
		return
	}
	if slices.ContainsFunc(j.highest(), func(a *process) bool { return a.learned && a.revision() == rev }) && status.Runtime.Tools == nil {
		j.found(wrongReport, "what was learned of %d is not reported", rev.Generation)
	}
	if status.Runtime.Generation != rev.Generation || status.Runtime.ServerUID != string(j.scenario.server.UID) {
		j.found(wrongReport, "status.runtime is %v, the backend carries %d", status.Runtime, rev.Generation)
	}
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionBackendApplied)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonApplied {
		j.found(wrongReport, "the condition is %v, the backend carries %d", c, rev.Generation)
	}
}
