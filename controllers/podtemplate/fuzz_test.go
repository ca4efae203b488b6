package podtemplate

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// additions are overlays that both pods take.
var additions = []string{
	`{}`,
	others,
	`{metadata: {labels: {team: a}, annotations: {a.b/c: d}}}`,
	`{spec: {nodeSelector: {disk: ssd}, tolerations: [{key: a, operator: Exists}], priorityClassName: high, hostNetwork: false}}`,
	`{spec: {containers: [{name: side, image: x, ports: [{containerPort: 1}], env: [{name: A, value: ""}], resources: {limits: {cpu: 0.0001, memory: 1.5Gi}}}]}}`,
	`{spec: {initContainers: [{name: first, image: x, volumeMounts: [{name: a, mountPath: /a}]}], volumes: [{name: a}, {name: b, emptyDir: {}}]}}`,
	`{spec: {volumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: a}}, {downwardAPI: {items: [{path: b, fieldRef: {fieldPath: metadata.name}}]}}]}}]}}`,
	`{spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: a, operator: In, values: [b]}]}]}}}}}`,
	`{spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]}}`,
	`{spec: {containers: [{name: side, image: x}, {name: server, livenessProbe: {tcpSocket: {port: mcp}}}]}}`,
	`{spec: {containers: [{name: side, image: x}, {name: proxy, lifecycle: {preStop: {sleep: {seconds: 1}}}}]}}`,
	`{spec: {securityContext: {seccompProfile: {type: Localhost, localhostProfile: a}, runAsUser: 0, runAsNonRoot: false}, containers: [{name: server, securityContext: {capabilities: {add: [CHOWN]}}}]}}`,
	`{spec: {hostUsers: false, containers: [{name: server, securityContext: {procMount: Unmasked, allowPrivilegeEscalation: true, capabilities: {drop: [MKNOD]}}}]}}`,
}

// FuzzOverlay holds both overlays to what the rest relies on, whatever a user writes into them: the same overlay gives
// the same answer; a refused one leaves ours as it was; an accepted one takes nothing from ours, loses nothing of its
// own, stays within baseline, leaves the runner's token where it is, and gives a template that the API server stores as
// it is.
func FuzzOverlay(f *testing.F) {
	for _, tc := range refusals {
		f.Add(asJSON(f, tc.overlay))
	}
	for _, overlay := range additions {
		f.Add(asJSON(f, overlay))
	}
	f.Add([]byte(" "))
	server := serverWith(f, spec)
	f.Fuzz(func(t *testing.T, data []byte) {
		backend, proxy := backendOverlay(runspec.For(server).Backend), proxyOverlay(&v1alpha1.ProxySpec{})
		backend.raw, proxy.raw = data, data
		judgeOverlay(t, backend, func() (*corev1ac.PodTemplateSpecApplyConfiguration, []Problem) { return backendOf(server) })
		judgeOverlay(t, proxy, func() (*corev1ac.PodTemplateSpecApplyConfiguration, []Problem) { return proxyOf(server) })
	})
}

// judgeOverlay judges one overlay over what build gives without it.
func judgeOverlay(t *testing.T, o overlay, build func() (*corev1ac.PodTemplateSpecApplyConfiguration, []Problem)) {
	t.Helper()
	ours, problems := build()
	if len(problems) > 0 {
		t.Fatalf("without an overlay: %v", problems)
	}
	plain := asText(t, ours)
	merged, problems := o.merge(ours)
	fresh, _ := build()
	again, others := o.merge(fresh)
	if diff := cmp.Diff(problems, others) + cmp.Diff(asText(t, merged), asText(t, again)); diff != "" {
		t.Errorf("%s, a second time (-first +second):\n%s", o.field, diff)
	}
	if diff := cmp.Diff(plain, asText(t, ours)); diff != "" {
		t.Errorf("%s changed what it was laid over (-before +after):\n%s", o.field, diff)
	}
	if len(problems) > 0 {
		if diff := cmp.Diff(plain, asText(t, merged)); diff != "" {
			t.Errorf("%s was refused and yet merged (-ours +merged):\n%s", o.field, diff)
		}
		for _, p := range problems {
			if p.Field == "" || p.Message == "" {
				t.Errorf("%s: a problem says nothing: %q", o.field, p)
			}
		}
		return
	}
	keepsBoth(t, o, ours, merged)
	storable(t, o, merged)
}

// keepsBoth demands that laying ours, or the overlay, over the result changes
// nothing: every field of both is in it, with its value.
func keepsBoth(t *testing.T, o overlay, ours, merged *corev1ac.PodTemplateSpecApplyConfiguration) {
	t.Helper()
	result := asTyped(t, merged)
	stays, err := o.yield(asTyped(t, ours), o.typedForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	for whose, part := range map[string]*typed.TypedValue{"ours": stays, "the overlay": o.typedForTest(t)} {
		over, err := result.Merge(part)
		if err != nil {
			t.Fatalf("%s: laying %s over the result: %v", o.field, whose, err)
		}
		changes, err := result.Compare(over)
		if err != nil {
			t.Fatal(err)
		}
		if !changes.IsSame() {
			t.Errorf("%s: not all of %s is in the result: %s", o.field, whose, changes)
		}
	}
	if len(merged.Spec.Containers) == 0 || *merged.Spec.Containers[0].Name != *ours.Spec.Containers[0].Name {
		t.Errorf("%s: our container is not the first", o.field)
	}
	for _, entries := range []struct{ ours, merged map[string]string }{
		{ours.Labels, merged.Labels}, {ours.Annotations, merged.Annotations},
	} {
		for key, value := range entries.merged {
			if Reserved(key) && entries.ours[key] != value {
				t.Errorf("%s: sets %s, which is reserved", o.field, key)
			}
		}
	}
}

// storable demands a template in the form in which the server stores it, with
// nothing empty in it and nothing that baseline does not allow.
func storable(t *testing.T, o overlay, merged *corev1ac.PodTemplateSpecApplyConfiguration) {
	t.Helper()
	template := &corev1.PodTemplateSpec{}
	text := asText(t, merged)
	if strict, err := kjson.UnmarshalStrict([]byte(text), template); err != nil || len(strict) > 0 {
		t.Fatalf("%s: the result is no pod template: %v %v\n%s", o.field, err, strict, text)
	}
	canonical, err := intent[corev1ac.PodTemplateSpecApplyConfiguration](template)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, asText(t, canonical)); diff != "" {
		t.Errorf("%s: the server would store something else (-result +stored):\n%s", o.field, diff)
	}
	walk(o.field, reflect.ValueOf(template), func(at spot) {
		if at.missing != "" {
			t.Errorf("%s has no %s", at.path, at.missing)
		}
	})
	if got := holders(template.Spec); o.holdsToken && !slices.Equal(got, []string{"proxy at " + tokenPath}) {
		t.Errorf("%s: the runner's token is in %q", o.field, got)
	}
	// Not by its parts, as the overlay was judged.
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelBaseline, Version: api.LatestVersion()}
	if result := policy.AggregateCheckResults(
		evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec)); !result.Allowed {
		t.Errorf("%s: the pod breaks baseline: %s", o.field, result.ForbiddenDetail())
	}
}

// typedForTest is the overlay by itself, in the form in which it is merged.
func (o overlay) typedForTest(t *testing.T) *typed.TypedValue {
	t.Helper()
	template := &corev1.PodTemplateSpec{}
	if len(bytes.TrimSpace(o.raw)) > 0 {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(o.raw, template); err != nil {
			t.Fatalf("%s: merged, and cannot be read: %v", o.field, err)
		}
	}
	fields, err := Canonical(template)
	if err != nil {
		t.Fatal(err)
	}
	value, err := toTyped(fields)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func asTyped(t *testing.T, template *corev1ac.PodTemplateSpecApplyConfiguration) *typed.TypedValue {
	t.Helper()
	fields, err := toFields(template)
	if err != nil {
		t.Fatal(err)
	}
	value, err := toTyped(fields)
	if err != nil {
		t.Fatalf("the result does not fit its schema: %v", err)
	}
	return value
}

// asText has sorted keys, because it goes through a map.
func asText(t *testing.T, template *corev1ac.PodTemplateSpecApplyConfiguration) string {
	t.Helper()
	data, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func asJSON(f *testing.F, text string) []byte {
	f.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		f.Fatal(err)
	}
	return data
}
