package library

import (
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	if others := writes.Where(func(r kit.Request) bool {
		return r.Verb != "apply" || r.Manager != html && r.Manager != status
	}); len(others) > 0 {
		t.Errorf("the operator writes otherwise than by apply under its managers: %s", others)
	}
}

// The schema of pages is the API server's own: by it, too, is what did not change left as it is.
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
	for end := time.Now().Add(kit.Patience); managers[status] == 0 &&
		time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		clear(managers)
		for _, r := range requests.Since(mark).In(d.Namespace).Writes() {
			managers[r.Manager]++
		}
	}
	if want := map[string]int{html: 1, status: 1}; !maps.Equal(managers, want) {
		t.Errorf("writes by manager: %v, want one of each for the one change", managers)
	}
}

// The policies that are compiled from its contract let it work, as every story
// here shows, and nobody else use its names.
func TestTheAPIServerHoldsItsContract(t *testing.T) {
	s := kit.NewEnv(t, plane)
	var err error
	// Policies are held to some time after they were taken.
	for end := time.Now().Add(s.Patience); err == nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		_, err = s.ApplyErr(html,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: stolen-html}, data: {index.html: theirs}}`)
	}
	if err == nil || !strings.Contains(err.Error(), "wiki") || !strings.Contains(err.Error(), html) {
		t.Errorf("somebody else wrote as %s: %v", html, err)
	}
	s.Apply("somebody", `{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs-html}, data: {index.html: theirs}}`)
}
