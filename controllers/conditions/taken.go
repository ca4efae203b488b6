package conditions

import (
	"fmt"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// NameTaken words that an object with another owner has the name of one of the
// server's objects.
func NameTaken(err error) Finding {
	return False(v1alpha1.ReasonNameTaken, fmt.Sprintf("%v: delete or rename that object, give this server another name, "+
		"or annotate the object with %s=true to hand it over", err, contract.AdoptAnnotation))
}

// NotAdoptable words that such an object was handed over and cannot become the
// server's.
func NotAdoptable(err error) Finding {
	return False(v1alpha1.ReasonNotAdoptable, fmt.Sprintf("%v: Freehold left it as it is; delete or rename it, or give this server another name", err))
}
