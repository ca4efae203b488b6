package conditions

import (
	"strings"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// PolicyUnmatched warns of policies that match no call, and stops nothing: what they
// were meant to permit is refused, and what they were meant to forbid may be allowed.
func PolicyUnmatched(problems []string) Finding {
	return True(v1alpha1.ReasonUnknownWords, strings.Join(problems, "; "))
}
