package mcpserver

import (
	"errors"
	"fmt"
	"slices"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// unprotected says that the server lacks the finalizer, and why. unheld is what
// the apply of it answered.
func unprotected(server *v1alpha1.MCPServer, unheld error) *conditions.Finding {
	if slices.Contains(server.Finalizers, contract.Finalizer) {
		return nil
	}
	reason, why := v1alpha1.ReasonContended, "it is removed again and again: take it out of what removes it"
	var fought *apply.Fought
	if unheld != nil && !errors.As(unheld, &fought) {
		reason, why = v1alpha1.ReasonApplyFailed, unheld.Error()
	}
	f := conditions.True(reason, fmt.Sprintf("the server lacks the finalizer %s, without which a deletion does not wait for calls to end: %s",
		contract.Finalizer, why))
	return &f
}
