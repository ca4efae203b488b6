package writer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/test/kit"
)

// injections are what admission adds to each pod template of a namespace, as JSON patches in CEL.
var injections = map[string]string{
	"an account": `JSONPatch{op: "add", path: "/spec/template/spec/serviceAccountName", value: "injected"}`,
	"another pull policy": `JSONPatch{op: "add", path: "/spec/template/spec/containers/0/imagePullPolicy", value: "Always"},
		JSONPatch{op: "add", path: "/spec/template/metadata/annotations/injected", value: "yes"}`,
	"an account, and another pull policy": `JSONPatch{op: "add", path: "/spec/template/spec/serviceAccountName", value: "injected"},
		JSONPatch{op: "add", path: "/spec/template/spec/containers/0/imagePullPolicy", value: "Always"}`,
	"a node selector, a sidecar and a command": `JSONPatch{op: "add", path: "/spec/template/spec/nodeSelector", value: {"zone": "a"}},
		JSONPatch{op: "add", path: "/spec/template/spec/containers/1", value: Object.spec.template.spec.containers{name: "mesh", image: "mesh:1"}},
		JSONPatch{op: "add", path: "/spec/template/spec/containers/0/command", value: ["injected"]}`,
}

// injected starts a policy that adds to what has pod templates, where the API server has such.
func (d *fixture) injected(patch string) bool {
	d.Helper()
	policies := schema.GroupKind{Group: admissionregistrationv1.GroupName, Kind: "MutatingAdmissionPolicy"}
	if _, err := plane.Client.RESTMapper().RESTMapping(policies, "v1"); meta.IsNoMatchError(err) {
		return false // Kubernetes 1.36 is the first that serves them by default
	}
	patch = fmt.Sprintf("object.spec.template.spec.containers.exists(c, c.name == 'mesh') ? [] : [%s]", patch)
	for _, object := range []client.Object{
		&admissionregistrationv1.MutatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: d.Namespace},
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
				MatchConstraints: &admissionregistrationv1.MatchResources{
					NamespaceSelector: d.selected(),
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
						{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
							Operations: rules().Operations,
							Rule: admissionregistrationv1.Rule{
								APIGroups: []string{"apps"}, APIVersions: []string{"v1"},
								Resources: []string{"statefulsets", "deployments"},
							},
						}},
					},
				},
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType: admissionregistrationv1.PatchTypeJSONPatch,
					JSONPatch: &admissionregistrationv1.JSONPatch{Expression: patch},
				}},
			},
		},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: d.Namespace},
			Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: d.Namespace},
		},
	} {
		d.Must(d.Client.Create(d.Ctx, object), "creating what injects")
		d.Cleanup(func() { _ = client.IgnoreNotFound(d.Client.Delete(d.Ctx, object)) })
	}
	return true
}

// injects waits until the API server injects into an intent.
func (d *fixture) injects(s statement) {
	d.Helper()
	for end := time.Now().Add(kit.Patience); ; time.Sleep(50 * time.Millisecond) {
		try := d.Intent(d.text(s.ac))
		d.Must(d.Client.Create(d.Ctx, try, client.DryRunAll), "trying")
		if text := d.text(try.Object); strings.Contains(text, "injected") {
			return
		}
		if time.Now().After(end) {
			d.Fatalf("nothing is injected")
		}
	}
}

// What admission adds to pods comes back with each write: no pass writes for it again.
func TestWhatAdmissionInjectsIsNoFight(t *testing.T) {
	t.Parallel()
	for name, patch := range injections {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := freehold(t)
			if !d.injected(patch) {
				return
			}
			for _, s := range d.workloads("", 1) {
				if _, proxy := s.empty.(*appsv1.Deployment); proxy && strings.HasPrefix(name, "an account") {
					continue // its account is stated
				}
				d.injects(s)
				d.put(apply.Created, s.manager, nil, s.ac, s.opts...)
				_ = d.sent()
				for range 10 {
					if _, err := d.applier.As(s.manager).Apply(d.Ctx, d.live(s), s.ac, s.opts...); err != nil &&
						!errors.Is(err, apply.ErrStale) {
						t.Errorf("%s: %v", s, err)
					}
				}
				writes := d.sent().Where(func(r kit.Request) bool { return r.Verb != "get" })
				if len(writes) > 2 {
					t.Errorf("%s: ten passes write %s", s, writes)
				}
			}
		})
	}
}

// Nor does a rewriting admission hide who puts something into our containers again and again.
func TestWhoPutsSomethingBackIsAConflictBesideAdmission(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	if !d.injected(injections["another pull policy"]) {
		return
	}
	for _, s := range d.workloads("", 1) {
		d.injects(s)
		d.put(apply.Created, s.manager, nil, s.ac, s.opts...)
		for range 3 {
			into["an applier"](d, d.live(s), podsOf(d.live(s)).Spec.Containers[0].Name)
			d.firmly(apply.Configured, s)
		}
		into["an applier"](d, d.live(s), podsOf(d.live(s)).Spec.Containers[0].Name)
		if c := cause[*apply.Conflict](d, d.refused(s.manager, d.live(s), s.ac, s.opts...)); c.RequeueAfter == 0 {
			t.Errorf("%s: %v", s, c)
		}
	}
}
