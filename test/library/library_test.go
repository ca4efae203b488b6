package library

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/test/kit"
	"github.com/freehold-dev/freehold/test/library/operator"
)

const (
	html   = string(operator.HTML)
	status = string(operator.Status)
	text   = `data["index.html"]`
)

func TestItsContractHolds(t *testing.T) {
	for _, err := range operator.Contract().Check() {
		t.Error(err)
	}
}

func TestItsFieldsAreApplied(t *testing.T) {
	d := home(t)
	d.Owns(d.html, html, text, `metadata.labels["wiki.example.com/page"]`, "metadata.ownerReferences[*]")
	d.Owns(d.page, status, "status.configMap", "status.conditions[type=Ready]")
	d.Owns(d.page, "author", "spec.text")
	if d.page.Status.ConfigMap != "home-html" || !metav1.IsControlledBy(d.html, d.page) {
		t.Errorf("the page is in %q, and the ConfigMap belongs to %v", d.page.Status.ConfigMap, d.html.OwnerReferences)
	}
	writes := requests.Since(0).In(d.Namespace).Writes()
	if others := writes.Where(func(r kit.Request) bool { return r.Verb != "apply" || r.Manager != html && r.Manager != status }); len(others) > 0 {
		t.Errorf("the operator writes otherwise than by apply under its managers: %s", others)
	}
}

func TestForeignFieldsSurvive(t *testing.T) {
	d := home(t)
	d.Apply("somebody", `{apiVersion: v1, kind: ConfigMap, metadata: {name: home-html, labels: {theirs: "1"}}, data: {style.css: "p {}"}}`)
	d.ApplyStatus("reviewer", `{apiVersion: wiki.example.com/v1, kind: Page, metadata: {name: home}, status: {conditions: [
		{type: Reviewed, status: "True", reason: Read, message: fine, lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`)
	d.write("other")
	d.shows("other")
	if d.html.Data["style.css"] != "p {}" || d.html.Labels["theirs"] != "1" || len(d.page.Status.Conditions) != 2 {
		t.Errorf("what others wrote is gone: %v, %v, %v", d.html.Data, d.html.Labels, d.page.Status.Conditions)
	}
	d.Owns(d.html, "somebody", `data["style.css"]`, "metadata.labels.theirs")
	d.Owns(d.page, "reviewer", "status.conditions[type=Reviewed]")
}

// Each harm has a page of its own: whoever harms one again and again is met
// once a minute only.
func TestDriftIsRepaired(t *testing.T) {
	for name, harm := range map[string]string{
		"a text":     `{"data":{"index.html":"defaced"}}`,
		"no text":    `{"data":{"index.html":null}}`,
		"no data":    `{"data":null}`,
		"no owner":   `{"metadata":{"labels":null,"ownerReferences":null}}`,
		"equal text": `{"metadata":{"labels":null},"data":{"index.html":"<p>hello</p>","more":"x"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := home(t)
			d.Patch(d.html, "kubectl-edit", harm)
			d.Await(d.html, "the harm is undone", func() error {
				whole := d.html.Data["index.html"] == "<p>hello</p>" && d.html.Labels["wiki.example.com/page"] == "home" && metav1.IsControlledBy(d.html, d.page)
				if !whole || !slices.Equal(d.OwnersOf(d.html, text), []string{html}) {
					return errors.New(kit.Owners(d.html.ManagedFields))
				}
				return nil
			})
			if strings.Contains(harm, "more") && d.html.Data["more"] != "x" {
				t.Error("the repair took what is not the operator's")
			}
		})
	}
	t.Run("all", func(t *testing.T) {
		d := home(t)
		was := d.html.UID
		d.Delete(d.html)
		d.Await(d.html, "it is born again", func() error {
			if d.html.UID == was || d.html.Data["index.html"] == "" {
				return errors.New("it is the old one")
			}
			return nil
		})
	})
}

func TestNothingIsWrittenWhereNothingChanged(t *testing.T) {
	d := home(t)
	// Conditions have times of whole seconds: into the next one.
	time.Sleep(time.Second)
	mark := requests.Mark()
	for _, touched := range []client.Object{d.page, d.html, d.page, d.html} {
		before := d.passes()
		d.Patch(touched, "somebody", `{"metadata":{"annotations":{"seen":"`+touched.GetResourceVersion()+`"}}}`)
		d.awaitPass(before)
	}
	// The pass over a change is after those over none.
	d.write("other")
	d.shows("other")
	managers := map[string]int{}
	// A write is seen by a watch before it is counted by who sent it.
	for end := time.Now().Add(kit.Patience); managers[status] == 0 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		clear(managers)
		for _, r := range requests.Since(mark).In(d.Namespace).Writes() {
			managers[r.Manager]++
		}
	}
	if want := map[string]int{html: 1, status: 1}; !maps.Equal(managers, want) {
		t.Errorf("writes by manager: %v, want one of each for the one change", managers)
	}
}

func TestAFieldOutsideTheGrantIsRefused(t *testing.T) {
	s := kit.NewEnv(t, plane)
	var sent kit.Requests
	c, err := client.New(sent.Wrap(plane.Config), client.Options{Scheme: plane.Scheme, Mapper: plane.Client.RESTMapper()})
	s.Must(err, "building a client")
	writer := apply.New(c, c, apply.NewConverter(plane.Scheme, nil), operator.Contract()).As(operator.HTML)
	for name, tc := range map[string]struct {
		intent interface{ IsApplyConfiguration() }
		fields []string
	}{
		"a field":        {corev1ac.ConfigMap("home-html", s.Namespace).WithData(map[string]string{"index.html": "x", "style.css": "x"}), []string{".data.style.css"}},
		"another object": {corev1ac.ConfigMap("settings", s.Namespace).WithData(map[string]string{"index.html": "x"}), nil},
		"another kind":   {corev1ac.Secret("home-html", s.Namespace).WithStringData(map[string]string{"index.html": "x"}), nil},
	} {
		var refused *apply.NotGranted
		if _, err := writer.Apply(s.Ctx, nil, tc.intent); !errors.As(err, &refused) || !slices.Equal(refused.Fields, tc.fields) {
			t.Errorf("%s: %v, want it refused for %v", name, err, tc.fields)
		}
	}
	if log := sent.Since(0); len(log) > 0 {
		t.Errorf("refused, and sent all the same: %s", log)
	}
}

// The policies that are compiled from its contract let it work, as every story
// here shows, and nobody else use its names.
func TestTheAPIServerHoldsItsContract(t *testing.T) {
	s := kit.NewEnv(t, plane)
	var err error
	// Policies are held to some time after they were taken.
	for end := time.Now().Add(s.Patience); err == nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		_, err = s.ApplyErr(html, `{apiVersion: v1, kind: ConfigMap, metadata: {name: stolen-html}, data: {index.html: theirs}}`)
	}
	if err == nil || !strings.Contains(err.Error(), "wiki") || !strings.Contains(err.Error(), html) {
		t.Errorf("somebody else wrote as %s: %v", html, err)
	}
	s.Apply("somebody", `{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs-html}, data: {index.html: theirs}}`)
}

// What somebody else made under the name is left alone, and said.
func TestAForeignObjectIsReported(t *testing.T) {
	d := &fixture{Env: kit.NewEnv(t, plane), page: &operator.Page{ObjectMeta: metav1.ObjectMeta{Name: "taken"}}}
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "taken-html"}}
	d.Apply("somebody", `{apiVersion: v1, kind: ConfigMap, metadata: {name: taken-html}, data: {index.html: theirs}}`)
	d.Read(theirs)
	d.write("mine")
	message := d.says(metav1.ConditionFalse)
	if want := "applying ConfigMap " + d.Namespace + "/taken-html as " + html + ": an object of this name exists that is not controlled by the same owner"; message != want {
		t.Errorf("it says %q, want %q", message, want)
	}
	if d.page.Status.ConfigMap != "" {
		t.Errorf("it says to be served from %q", d.page.Status.ConfigMap)
	}
	was := theirs.ResourceVersion
	if d.Read(theirs); theirs.ResourceVersion != was {
		t.Errorf("it was written:\n%s", kit.Owners(theirs.ManagedFields))
	}
}

// Whoever writes its field again and again is met a few times, named, and let be.
func TestAConflictIsReported(t *testing.T) {
	const rounds = 8
	d := home(t)
	mark := requests.Mark()
	for n := range rounds {
		before := d.passes()
		d.Force("somebody", fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: home-html}, data: {index.html: "defaced %d"}}`, n))
		d.awaitPass(before)
	}
	message := d.says(metav1.ConditionFalse)
	if want := `field manager "somebody" overwrites .data.index.html of ConfigMap home-html`; message != want {
		t.Errorf("it says %q, want %q", message, want)
	}
	writes := requests.Since(mark).In(d.Namespace).Writes().Where(func(r kit.Request) bool { return r.Manager == html })
	if len(writes) > rounds/2 {
		t.Errorf("the text was repaired %d times: %s", len(writes), writes)
	}
}

// What is shared is written where nobody holds it; else it is yielded, and who
// holds it is in the error.
func TestASharedFieldIsYieldedAndReported(t *testing.T) {
	s := kit.NewEnv(t, plane)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "home-theme"}}
	s.Apply("designer", `{apiVersion: v1, kind: ConfigMap, metadata: {name: home-theme}, data: {colour: red}}`)
	s.Read(object)
	const theme ownership.Manager = "page.wiki.example.com/theme"
	contract := ownership.Contract{Grants: []ownership.Grant{{
		Manager: theme, Identity: "wiki-operator", Mode: ownership.Shared,
		Object: ownership.Object{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap")},
		Names:  []string{"PAGE-theme"}, Fields: ownership.Paths("data.colour", "data.font"), Why: "suggests a theme",
	}}}
	for _, err := range contract.Check() {
		t.Error(err)
	}
	writer := apply.New(s.Client, s.Client, apply.NewConverter(plane.Scheme, nil), contract).As(theme)
	suggest := func(data map[string]string) error {
		_, err := writer.Apply(s.Ctx, object, corev1ac.ConfigMap(object.Name, s.Namespace).WithData(data))
		return err
	}

	err := suggest(map[string]string{"colour": "blue", "font": "serif"})
	var conflict *apply.Conflict
	if !errors.As(err, &conflict) || len(conflict.Fields) != 1 || conflict.Fields[0] != ".data.colour" || !strings.Contains(err.Error(), "designer") {
		t.Errorf("a field that somebody holds: %v, want it contended by designer", err)
	}
	was := object.ResourceVersion
	if s.Read(object); object.ResourceVersion != was {
		t.Errorf("it was written all the same: %v", object.Data)
	}
	s.Must(suggest(map[string]string{"font": "serif"}), "writing what nobody holds")
	s.Owns(object, string(theme), "data.font")
	s.Owns(object, "designer", "data.colour")
}
