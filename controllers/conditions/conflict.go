package conditions

import (
	"fmt"
	"strings"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// FieldConflict says which managers repeatedly overwrite fields that Freehold
// owns. Each conflict names manager, fields and object.
func FieldConflict[C fmt.Stringer](conflicts []C) Finding {
	texts := make([]string, 0, len(conflicts))
	for _, c := range conflicts {
		texts = append(texts, c.String())
	}
	return True(v1alpha1.ReasonFieldConflict, strings.Join(texts, "; ")+". "+
		"Freehold owns these fields, and sets them back once a minute: remove them from what that manager writes")
}
