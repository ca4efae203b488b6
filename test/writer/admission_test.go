package writer

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/test/kit"
)

// mutators are what changes data.image of every ConfigMap of a namespace to
// mirror/IMAGE, as a registry mirror does. They return what ends it.
var mutators = map[string]func(*fixture) []client.Object{
	"a webhook": webhook,
	"a policy":  mutatingPolicy,
}

func rules() admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"},
			Resources: []string{"configmaps"},
		},
	}
}

func (d *fixture) selected() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: d.Namespace}}
}

func webhook(d *fixture) []client.Object {
	d.Helper()
	hook := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review, config := &admissionv1.AdmissionReview{}, &corev1.ConfigMap{}
		if json.NewDecoder(r.Body).Decode(review) != nil || json.Unmarshal(review.Request.Object.Raw, config) != nil {
			http.Error(w, "this is no review of a ConfigMap", http.StatusBadRequest)
			return
		}
		answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if config.Data["image"] != "" {
			answer.PatchType = new(admissionv1.PatchTypeJSONPatch)
			answer.Patch = []byte(`[{"op":"add","path":"/data/image","value":"mirror"}]`)
		}
		review.Request, review.Response = nil, answer
		_ = json.NewEncoder(w).Encode(review)
	}))
	hook.Config.ErrorLog = log.New(io.Discard, "", 0)
	hook.StartTLS()
	d.Cleanup(hook.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	return []client.Object{&admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: d.Namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "mirror.example.com", AdmissionReviewVersions: []string{"v1"}, NamespaceSelector: d.selected(),
			SideEffects:  new(admissionregistrationv1.SideEffectClassNone),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new(hook.URL), CABundle: bytes.TrimSpace(ca)},
			Rules:        []admissionregistrationv1.RuleWithOperations{rules()},
		}},
	}}
}

func mutatingPolicy(d *fixture) []client.Object {
	return []client.Object{
		&admissionregistrationv1.MutatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: d.Namespace},
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
				MatchConstraints: &admissionregistrationv1.MatchResources{
					NamespaceSelector: d.selected(),
					ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rules()}},
				},
				MatchConditions: []admissionregistrationv1.MatchCondition{
					{Name: "image", Expression: "has(object.data) && 'image' in object.data"},
				},
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType: admissionregistrationv1.PatchTypeJSONPatch,
					JSONPatch: &admissionregistrationv1.JSONPatch{
						Expression: `[JSONPatch{op: "add", path: "/data/image", value: "mirror"}]`,
					},
				}},
			},
		},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: d.Namespace},
			Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: d.Namespace},
		},
	}
}

// mutated starts what mutates, and ends it with the test. The function ends it now.
func (d *fixture) mutated(objects []client.Object) (end func()) {
	d.Helper()
	for _, object := range objects {
		d.Must(d.Client.Create(d.Ctx, object), "creating what mutates")
		d.Cleanup(func() { _ = client.IgnoreNotFound(d.Client.Delete(d.Ctx, object)) })
	}
	d.mutates(true)
	return func() {
		for _, object := range objects {
			d.Must(d.Client.Delete(d.Ctx, object), "ending what mutates")
		}
		d.mutates(false)
	}
}

// mutates waits until the API server knows.
func (d *fixture) mutates(want bool) {
	d.Helper()
	for end := time.Now().Add(kit.Patience); ; time.Sleep(50 * time.Millisecond) {
		try := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, GenerateName: "try-"},
			Data:       map[string]string{"image": "i"},
		}
		d.Must(d.Client.Create(d.Ctx, try, client.DryRunAll), "trying")
		if (try.Data["image"] == "mirror") == want {
			return
		}
		if time.Now().After(end) {
			d.Fatalf("that the image is mutated is %t", !want)
		}
	}
}

// What admission makes of an apply is the state that is remembered: it is told once, costs no write at rest, and is
// nobody's conflict. What a person changes is still repaired, and the end of it is noticed.
func TestWhatAdmissionChangesIsNotChangedBack(t *testing.T) {
	policies := schema.GroupKind{Group: admissionregistrationv1.GroupName, Kind: "MutatingAdmissionPolicy"}
	_, err := plane.Client.RESTMapper().RESTMapping(policies, "v1")
	for name, mutator := range mutators {
		if name == "a policy" && meta.IsNoMatchError(err) {
			continue // Kubernetes 1.36 is the first that serves them by default
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := under(t, granting(grant(one, "data")))
			m := &mirrored{
				fixture: d, now: time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC),
				intent: d.note("note", "image", "ours", "other", "1"),
			}
			d.applier.Now = m.clock
			d.put(apply.Created, one, nil, m.intent)
			end := d.mutated(mutator(d))
			m.begins()
			m.isRepaired()
			m.ends(end)
		})
	}
}

// mirrored is a ConfigMap whose image admission changes.
type mirrored struct {
	*fixture
	now    time.Time
	intent *corev1ac.ConfigMapApplyConfiguration
}

func (m *mirrored) clock() time.Time { return m.now }

func (m *mirrored) live() *corev1.ConfigMap {
	m.Helper()
	return read(m.fixture, &corev1.ConfigMap{}, "note")
}

func (m *mirrored) putNow(want apply.Result) apply.Outcome {
	m.Helper()
	return m.put(want, one, m.live(), m.intent)
}

// rests expects that nothing is sent.
func (m *mirrored) rests() {
	m.Helper()
	before := m.Versions()
	_ = m.sent()
	for range 3 {
		if got := m.putNow(apply.Unchanged); got.RequeueAfter == 0 {
			m.Error("nobody looks whether it still happens")
		}
	}
	m.applied(0)
	m.NothingMoved(before)
}

// begins is admission that begins after us, and shows when somebody writes
// something else. A new process sends once, and the API server stores nothing.
func (m *mirrored) begins() {
	m.Helper()
	m.Patch(m.live(), "somebody", `{"metadata":{"labels":{"example.com/team":"red"}}}`)
	got := m.putNow(apply.Configured)
	if got.Repaired != nil || got.Rewritten == nil || !slices.Equal(got.Rewritten.Fields, []string{".data.image"}) {
		m.Fatalf("repaired is %v, rewritten %v", got.Repaired, got.Rewritten)
	}
	m.rests()
	m.Patch(m.live(), "somebody", `{"metadata":{"labels":{"example.com/team":"blue"}}}`)
	m.rests()
	before := m.Versions()
	m.applier = m.process()
	m.applier.Now = m.clock
	if got = m.putNow(apply.Configured); got.Repaired != nil || got.Rewritten == nil {
		m.Errorf("in a new process repaired is %v, rewritten %v", got.Repaired, got.Rewritten)
	}
	m.NothingMoved(before)
	m.rests()
}

// isRepaired is what a person changes, also of the field that admission changes.
func (m *mirrored) isRepaired() {
	m.Helper()
	for _, field := range []string{"image", "other"} {
		m.Patch(m.live(), "somebody", fmt.Sprintf(`{"data":{%q:"theirs"}}`, field))
		got := m.putNow(apply.Configured)
		if got.Repaired == nil || !slices.Equal(got.Repaired.Fields, []string{".data." + field}) || got.Rewritten != nil {
			m.Errorf("of %s repaired is %v, rewritten %v", field, got.Repaired, got.Rewritten)
		}
		m.rests()
	}
	if data := m.live().Data; data["image"] != "mirror" || data["other"] != "1" {
		m.Errorf("it has %v", data)
	}
}

// ends is admission that ends: it is noticed when it was asked for again.
func (m *mirrored) ends(end func()) {
	m.Helper()
	m.now = m.now.Add(m.putNow(apply.Unchanged).RequeueAfter)
	if got := m.putNow(apply.Configured); got.Repaired != nil || got.Rewritten != nil {
		m.Errorf("it is told again: %v, %v", got.Repaired, got.Rewritten)
	}
	m.rests()
	end()
	m.now = m.now.Add(m.putNow(apply.Unchanged).RequeueAfter)
	if got := m.putNow(apply.Configured); got.Repaired != nil || m.live().Data["image"] != "ours" {
		m.Errorf("after its end repaired is %v, and the image %s", got.Repaired, m.live().Data["image"])
	}
	if got := m.putNow(apply.Unchanged); got.RequeueAfter != 0 {
		m.Error("there is nothing left to look after")
	}
}
