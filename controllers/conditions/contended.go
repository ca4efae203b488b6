package conditions

import (
	"fmt"
	"strings"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// Contended says who changes again and again what is Freehold's. Each contest
// names object, fields, managers and since when.
func Contended[C fmt.Stringer](contests []C) Finding {
	texts := make([]string, 0, len(contests))
	for _, c := range contests {
		texts = append(texts, c.String())
	}
	return True(v1alpha1.ReasonContended, "changed again and again, though Freehold states it; it is set back once a minute. "+
		"Take it out of what that manager writes: "+strings.Join(texts, "; "))
}
