package conditions

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/ownership"
)

const ours ownership.Manager = "tests.freehold.dev/ours"

const oursStated = `{metadata: {name: w}, spec: {template: {spec: {
	initContainers: [{name: prepare, image: i}], containers: [{name: server, image: i}], volumes: [{name: run, emptyDir: {medium: Memory}}]}}}}`

// applied is a Deployment to which managers applied in turn: ours first.
func applied(t *testing.T, texts ...string) *appsv1.Deployment {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	live := managedfieldstest.NewTestFieldManager(applyconfigurations.NewTypeConverter(scheme), kind)
	for i, text := range texts {
		intent := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &intent.Object); err != nil {
			t.Fatal(err)
		}
		intent.SetGroupVersionKind(kind)
		manager := string(ours)
		if i > 0 {
			manager = "theirs"
		}
		if err := live.Apply(intent, manager, true); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(live.Live())
	if err != nil {
		t.Fatal(err)
	}
	deployment := &appsv1.Deployment{}
	if err := json.Unmarshal(data, deployment); err != nil {
		t.Fatal(err)
	}
	return deployment
}

func TestForeignContent(t *testing.T) {
	for name, tc := range map[string]struct {
		theirs string
		want   Foreign
	}{
		"nobody else": {`{metadata: {name: w}}`, Foreign{}},
		"a sidecar": {
			`{metadata: {name: w}, spec: {template: {spec: {containers: [{name: mesh, image: m}]}}}}`,
			Foreign{Beside: []string{"proxy container mesh"}},
		},
		"everything": {
			`{metadata: {name: w}, spec: {template: {spec: {
			initContainers: [{name: before, image: m}], containers: [{name: mesh, image: m}], volumes: [{name: certs, emptyDir: {}}]}}}}`,
			Foreign{Beside: []string{"proxy init container before", "proxy container mesh", "proxy volume certs"}},
		},
		"a field in a container of ours": {
			`{metadata: {name: w}, spec: {template: {spec: {containers: [{name: server, stdin: true}]}}}}`, Foreign{
				Inside: []string{"proxy container server stdin (field manager theirs)"},
			},
		},
		"what runs in a container of ours": {
			`{metadata: {name: w}, spec: {template: {spec: {containers: [{name: server, command: [evil], env: [{name: LD_PRELOAD, value: x}],
			ports: [{containerPort: 1, protocol: TCP}], lifecycle: {postStart: {exec: {command: [evil]}}}, resources: {limits: {cpu: "1"}}}]}}}}`,
			Foreign{Inside: []string{
				"proxy container server command (field manager theirs)",
				"proxy container server env[name=\"LD_PRELOAD\"] (field manager theirs)",
				"proxy container server lifecycle.postStart.exec.command (field manager theirs)",
				"proxy container server ports[containerPort=1,protocol=\"TCP\"] (field manager theirs)",
				"proxy container server resources.limits.cpu (field manager theirs)",
			}},
		},
		"an image of ours": {
			`{metadata: {name: w}, spec: {template: {spec: {containers: [{name: server, image: stolen}]}}}}`,
			Foreign{
				Inside: []string{"proxy container server image (field manager theirs)"},
			},
		},
		"labels": {`{metadata: {name: w, labels: {a: b}}, spec: {template: {metadata: {labels: {a: b}}}}}`, Foreign{}},
		"a sidecar that has our name as init container": {
			`{metadata: {name: w}, spec: {template: {spec: {containers: [{name: prepare, image: m}]}}}}`,
			Foreign{Beside: []string{"proxy container prepare"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			live := applied(t, oursStated, tc.theirs)
			got := ForeignContent("proxy", live.ManagedFields, ours, live.Spec.Template.Spec)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What nobody holds, as of a webhook, is named, too, but for what the API server fills in.
func TestForeignPodContent(t *testing.T) {
	live := applied(t, oursStated, `{metadata: {name: w}, spec: {template: {spec: {containers: [{name: mesh, image: m},
		{name: server, command: [evil], imagePullPolicy: Always, terminationMessagePath: /dev/termination-log}]}}}}`)
	live.ManagedFields = live.ManagedFields[:1]
	found := ForeignContent("proxy", live.ManagedFields, ours, live.Spec.Template.Spec)
	want := "other field managers, or webhooks, added to the pods of this server: proxy container mesh; " +
		"in Freehold's own containers stands what Freehold does not state: proxy container server command (no field " +
		"manager, as of a webhook). " +
		"Freehold takes off what a field manager puts there: stop that manager, and give up its fields with kubectl " +
		"freehold release. " +
		"It does not take off what no manager holds: exclude these objects from the webhook, or remove the field with " +
		"kubectl edit"
	if got := ForeignPodContent(found, Foreign{}); got == nil || got.Message != want {
		t.Errorf("it says %+v, want %s", got, want)
	}
	if got := ForeignPodContent(Foreign{}); got != nil {
		t.Errorf("nothing is said as %+v", got)
	}
}

// An object of which we own nothing is not ours to judge.
func TestForeignContentOfAForeignObject(t *testing.T) {
	live := applied(t, oursStated)
	for name, entries := range map[string][]metav1.ManagedFieldsEntry{
		"none":       nil,
		"another's":  {{Manager: "theirs", Operation: "Apply", FieldsV1: live.ManagedFields[0].FieldsV1}},
		"by Update":  {{Manager: string(ours), Operation: "Update", FieldsV1: live.ManagedFields[0].FieldsV1}},
		"unreadable": {{Manager: string(ours), Operation: "Apply", FieldsV1: metav1.NewFieldsV1("{")}},
		"of a status": {{
			Manager: string(ours), Operation: "Apply", Subresource: "status",
			FieldsV1: live.ManagedFields[0].FieldsV1,
		}},
	} {
		if got := ForeignContent("proxy", entries, ours, live.Spec.Template.Spec); len(got.Beside)+len(got.Inside) > 0 {
			t.Errorf("%s: foreign is %v", name, got)
		}
	}
}
