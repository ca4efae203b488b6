package controllers

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/freehold-dev/freehold/apis/contract"
)

// checkKindsServed returns an error that names our kinds which the cluster lacks, as with CRDs of an older release.
// If the API server does not answer, the next request reports it.
func checkKindsServed(mapper meta.RESTMapper) error {
	var missing []string
	for _, o := range contract.Kinds() {
		if _, err := mapper.RESTMapping(o.GroupKind(), o.Version); meta.IsNoMatchError(err) {
			missing = append(missing, o.Kind)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("the cluster has no CustomResourceDefinition of %s in %s: apply the CRDs of this release, "+
		"which its chart does unless crds.install is false", strings.Join(missing, ", "), contract.MCPServer.GroupVersion())
}
