package integration

import (
	"fmt"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/test/kit"
)

// current asks whether kstatus, by which Flux, Argo CD and kubectl wait, calls the object done.
func current(object *unstructured.Unstructured) func() error {
	return func() error {
		is, why, err := kit.Kstatus(object)
		if err == nil && is != status.CurrentStatus {
			err = fmt.Errorf("kstatus says %s: %s", is, why)
		}
		return err
	}
}

// decode reads a state into a typed object.
func decode(from *unstructured.Unstructured, to client.Object) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to); err != nil {
		return fmt.Errorf("decoding %s: %w", from.GetKind(), err)
	}
	return nil
}

func nested(f kit.State, path ...string) (any, bool, error) {
	return unstructured.NestedFieldNoCopy(f.Object.Object, path...)
}

func contains(text, part string) error {
	if !strings.Contains(text, part) {
		return fmt.Errorf("%q does not say %q", text, part)
	}
	return nil
}

func emptyList(list client.ObjectList) error { return none(meta.LenList(list)) }
