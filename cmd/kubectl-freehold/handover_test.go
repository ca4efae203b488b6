package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// As of an aggregated API, whose server publishes nothing: nobody can say which item of a list is whose.
func TestAKindWithoutASchemaIsNotHandedOver(t *testing.T) {
	empty := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer empty.Close()
	d := sit("")
	d.flags.APIServer = &empty.URL
	cache := t.TempDir()
	d.flags.CacheDir = &cache
	_, err := d.schema(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Reading"})
	if err == nil || !strings.Contains(err.Error(), "publishes no schema of example.com/v1, Kind=Reading") ||
		!strings.Contains(err.Error(), "leave --to out") {
		t.Errorf("the error is %v", err)
	}
}

// A receiver that did not get everything, as where a webhook strikes a field, is told what is missing.
func TestWhatWasNotGivenIsNamed(t *testing.T) {
	u := &unstructured.Unstructured{}
	u.SetKind("Deployment")
	u.SetName("shop")
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply,
			FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	r := releasing{manager: "git", to: "helm"}
	for name, tc := range map[string]struct{ theirs, says string }{
		"all": {`{"f:spec":{"f:replicas":{},"f:paused":{}}}`, ""},
		"some": {
			`{"f:spec":{"f:replicas":{}}}`,
			`"helm" could not be given spec.paused of Deployment/shop: "git" has given up nothing`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			u.SetManagedFields([]metav1.ManagedFieldsEntry{
				entry("git", `{"f:spec":{"f:replicas":{},"f:paused":{}}}`),
				entry("helm", tc.theirs),
			})
			fields, others, err := divided(u, r)
			if err != nil {
				t.Fatal(err)
			}
			err = allHeld(fields, others, u, r)
			if (err == nil) != (tc.says == "") || err != nil && !strings.HasPrefix(err.Error(), tc.says) {
				t.Errorf("the error is %v, want %q", err, tc.says)
			}
		})
	}
}
