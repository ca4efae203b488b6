// Package conditions turns findings into the conditions of a status. It is pure. Start with Finding and Stamp;
// said.go has the table of what Kubernetes reports about pods and what it means.
package conditions

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// Finding answers one question about an object.
type Finding struct {
	Status metav1.ConditionStatus
	// Reason is a constant in CamelCase that tools match on.
	Reason string
	// Message is a sentence for a person; it may be empty.
	Message string
}

// True is a finding that answers yes.
func True(reason, message string) Finding {
	return Finding{Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// False is a finding that answers no.
func False(reason, message string) Finding {
	return Finding{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// FieldConflict names the managers that repeatedly overwrite fields of Freehold. Each conflict names manager, fields
// and object.
func FieldConflict[C fmt.Stringer](conflicts []C) Finding {
	texts := make([]string, 0, len(conflicts))
	for _, c := range conflicts {
		texts = append(texts, c.String())
	}
	return True(v1alpha1.ReasonFieldConflict, strings.Join(texts, "; ")+". "+
		"Freehold owns these fields, and sets them back once a minute: remove them from what that manager writes")
}

// NameTaken says that other owners' objects have the names of the server's.
func NameTaken(errs ...error) Finding {
	if len(errs) > 1 {
		return False(v1alpha1.ReasonNameTaken,
			fmt.Sprintf("%s: delete or rename these objects, give this server another name, "+
				"or annotate each of them with %s=true to hand them over", joined(errs), contract.AdoptAnnotation))
	}
	return False(v1alpha1.ReasonNameTaken, fmt.Sprintf("%s: delete or rename that object, give this server another name, "+
		"or annotate the object with %s=true to hand it over", joined(errs), contract.AdoptAnnotation))
}

// NotAdoptable says that such objects, some of them handed over, cannot become the server's.
func NotAdoptable(errs ...error) Finding {
	if len(errs) > 1 {
		return False(v1alpha1.ReasonNotAdoptable, fmt.Sprintf(
			"%s: Freehold took over none of the server's objects and left all as they are; delete or rename these, or give "+
				"this server another name", joined(errs)))
	}
	return False(v1alpha1.ReasonNotAdoptable,
		fmt.Sprintf("%s: Freehold left it as it is; delete or rename it, or give this server another name", joined(errs)))
}

func joined(errs []error) string {
	texts := make([]string, 0, len(errs))
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

// PolicyUnmatched warns of policies that match no call: what they should permit is refused, and what they should
// forbid may be allowed.
func PolicyUnmatched(problems []string) Finding {
	return True(v1alpha1.ReasonUnknownWords, strings.Join(problems, "; "))
}

// Paused says that the rollout of the proxy is paused.
func Paused(deployment string) Finding {
	return False(v1alpha1.ReasonPaused, fmt.Sprintf(
		"somebody has paused Deployment %[1]s, so that its pods are not replaced: kubectl rollout resume deployment/%[1]s",
		deployment))
}

// Partitioned says that the rollout of the backend is held by a partition.
func Partitioned(statefulSet string, partition int32) Finding {
	return False(v1alpha1.ReasonPaused, fmt.Sprintf(
		"somebody has set spec.updateStrategy.rollingUpdate.partition of StatefulSet %s to %d, so that pods below that "+
			"number are not replaced: set it to 0",
		statefulSet, partition))
}
