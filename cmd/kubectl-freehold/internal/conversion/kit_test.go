package conversion

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// of converts one object alone.
func of(u *unstructured.Unstructured) ([]Result, error) {
	outcome := Run([]*unstructured.Unstructured{u}, "")[0]
	return outcome.Results, outcome.Err
}
