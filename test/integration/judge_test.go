package integration

import (
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/test/kit"
)

// current asks whether kstatus, by which Flux, Argo CD and kubectl wait, calls
// the object done.
func current(object *unstructured.Unstructured) func() error {
	return func() error {
		is, why, err := kit.Judge(object)
		if err == nil && is != status.CurrentStatus {
			err = fmt.Errorf("kstatus says %s: %s", is, why)
		}
		return err
	}
}
