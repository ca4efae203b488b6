package conversion

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// of converts one object alone.
func of(u *unstructured.Unstructured) ([]Result, error) {
	outcome := Run(context.Background(), []*unstructured.Unstructured{u}, Options{})[0]
	return outcome.Results, outcome.Err
}
