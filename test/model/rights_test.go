package model

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// byAPolicy is how the API server begins to say which policy of ours refuses a request.
const byAPolicy = "ValidatingAdmissionPolicy 'freehold-"

// refusal judges who was refused, and why: what a process of ours does is neither against its role nor against a
// policy. The runner's role is an object like others, which somebody may delete or change until the operator sees it,
// and what it may read of history comes a moment after the status that names that. An operator asks for content that it
// may only watch, and takes the refusal for an answer.
func (j *checker) refusal(o *operation, body []byte) {
	p := j.scenario
	refusedByPolicy := strings.Contains(string(body), byAPolicy)
	switch {
	case o.by == nil && o.forbidden:
		if o.Code < http.StatusMultipleChoices || versionOf(p.look(o.of)) != versionOf(o.before) {
			j.found(letThrough, "%s: %d", o, o.Code)
		}
		if refusedByPolicy {
			p.tally["refused by a policy"]++
		}
	case o.by == nil:
	// What the policy is for: a status ignores the uid of the server that a runner
	// knew, and whose report another of the name must not get.
	case refusedByPolicy && strings.Contains(string(body), "status.runtime.serverUID may not become") &&
		uidOf(o.by.read(o.of)) != uidOf(o.before):
		p.tally["report of a server that was, refused by a policy"]++
	case refusedByPolicy:
		j.found(byPolicy, "%s by %s: %s", o, o.by, said(string(body)))
	case o.Code != http.StatusForbidden:
	case o.by.isRunner() && !p.runnerMay(), o.Verb == "get" && o.of.kind == contract.ControllerRevision.Kind:
		p.tally["fault 403"]++
	default:
		j.found(byRole, "%s by %s: %s", o, o.by, body)
	}
}

// runner is what the API server knows of the run's runners.
func (p *scenario) runner() *rest.Config {
	return plane.AsServiceAccount(namespace, workload.RunnerName(p.name))
}

// isRunner reports whether the process is a runner.
func (a *process) isRunner() bool { return a.revision.Valid() }

// grantsRunner reports whether an object has to do with what runners may do.
func grantsRunner(k key) bool {
	return k.kind == contract.Role.Kind || k.kind == contract.RoleBinding.Kind
}

// granted is what the runners may do by what stands.
func (p *scenario) granted() []string {
	name := workload.RunnerName(p.name)
	binding, role := &rbacv1.RoleBinding{}, &rbacv1.Role{}
	if !p.typed(p.child(contract.RoleBinding, name), binding) || !p.typed(p.child(contract.Role, name), role) {
		return nil
	}
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	if !slices.Contains(binding.Subjects, subject) || binding.RoleRef.Name != name {
		return nil
	}
	var rules []string
	for _, r := range role.Rules {
		rules = append(rules, fmt.Sprint(r.APIGroups, r.Resources, r.ResourceNames, r.Verbs))
	}
	return slices.Sorted(slices.Values(rules))
}

// typed puts an object into its Go type, false if there is none.
func (p *scenario) typed(from *unstructured.Unstructured, into any) bool {
	if from == nil {
		return false
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, into); err != nil {
		p.broke(err)
	}
	return true
}

// runnerMay reports whether the runners may do what their role is to let them at rest. What they may read of history in
// a rollout comes and goes.
func (p *scenario) runnerMay() bool {
	server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.name}}
	var rules []string
	for _, r := range workload.Role(workload.OwnerOf(server)).Rules {
		rules = append(rules, fmt.Sprint(r.APIGroups, r.Resources, r.ResourceNames, r.Verbs))
	}
	granted := slices.DeleteFunc(p.granted(), func(rule string) bool {
		return strings.Contains(rule, contract.ControllerRevision.Resource())
	})
	return slices.Equal(slices.Sorted(slices.Values(rules)), granted)
}

// awaitRights waits until the API server grants the runners what stands, which it
// learns of a moment after it has answered: on that no schedule may depend.
func (p *scenario) awaitRights() {
	want := p.granted()
	for end := time.Now().Add(kit.Patience); ; time.Sleep(time.Millisecond) {
		review := &authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
		}
		if err := p.reviewer.Create(p.t.Context(), review); err != nil {
			p.broke(err)
			return
		}
		var have []string
		for _, r := range review.Status.ResourceRules {
			if !slices.Contains(r.APIGroups, authorizationv1.GroupName) &&
				!slices.Contains(r.APIGroups, "authentication.k8s.io") {
				// everybody's
				have = append(have, fmt.Sprint(r.APIGroups, r.Resources, r.ResourceNames, r.Verbs))
			}
		}
		slices.Sort(have)
		if slices.Equal(want, have) {
			return
		}
		if time.Now().After(end) {
			p.broke(fmt.Errorf("the runner may %s, and should %s", have, want))
			return
		}
	}
}
