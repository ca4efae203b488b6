package apply

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/freehold-dev/freehold/apis/ownership"
)

var (
	// ErrExists means that a create met an existing object: look again.
	ErrExists = errors.New("the object exists")
	// ErrForeign means that this manager did not write the object, and that the intent's owner does not control it.
	// Nothing is written.
	ErrForeign = errors.New("an object of this name exists that is not controlled by the same owner")
	// ErrHandedOver is ErrForeign for an object that was handed over, while the caller takes nothing over (NoTakeover).
	ErrHandedOver = fmt.Errorf("%w, and was handed over", ErrForeign)
	// ErrOwnerGone means that the owner to add is being deleted, or gone.
	ErrOwnerGone = errors.New("the owner is being deleted, or is gone")
	// ErrGone means that the object no longer exists.
	ErrGone = errors.New("the object is gone")
	// ErrReincarnated means that the object was deleted and created again since it was read.
	ErrReincarnated = errors.New("the object is another one of the same name")
	// ErrStale means that the object changed since it was read; returned by deletions and by writes at a version.
	ErrStale = errors.New("the object changed since it was read")
	// ErrNamespaceTerminating means that the namespace of a create is being deleted.
	ErrNamespaceTerminating = errors.New("the namespace is being deleted")
	// ErrStripped means that a cache removed managedFields which the server has. Ownership cannot be judged without them.
	ErrStripped = errors.New("the object was read without its managedFields: remove the cache transform that strips them")
)

// NotGranted means that the intent states fields outside the contract, or that there is no grant: a defect of the
// caller. Nothing was sent.
type NotGranted struct {
	Manager ownership.Manager
	Object  string
	Fields  []string
}

func (e *NotGranted) Error() string {
	if len(e.Fields) == 0 {
		return fmt.Sprintf("manager %s has no grant on %s", e.Manager, e.Object)
	}
	return fmt.Sprintf("manager %s may not write %s of %s", e.Manager, strings.Join(e.Fields, ", "), e.Object)
}

// BadIntent means that the intent cannot be frozen, or that schema, validation or admission refuse it. A retry
// succeeds only after another party changed that, such as a policy.
type BadIntent struct{ Err error }

func (e *BadIntent) Error() string { return e.Err.Error() }
func (e *BadIntent) Unwrap() error { return e.Err }

// Dated is a TypeConverter for kinds of others, which do not come with this program.
type Dated interface {
	// Older says what to do in a cluster whose CustomResourceDefinition lacks a field.
	Older() string
}

// olderSchema explains that the CRD in the cluster is older than this program's schema, of which it lacks a field.
func olderSchema(kind string, own managedfields.TypeConverter, answer error) error {
	cure := "apply the CRDs of this release"
	if dated, is := own.(Dated); is {
		cure = dated.Older()
	}
	return fmt.Errorf("the CustomResourceDefinition of %s in the cluster is older than this program: %s: %w", kind, cure,
		answer)
}

// classified gives an answer of the API server the identity of one of the errors above.
type classified struct{ name, answer error }

func (e *classified) Error() string        { return e.name.Error() + ": " + e.answer.Error() }
func (e *classified) Is(target error) bool { return target == e.name }
func (e *classified) Unwrap() error        { return e.answer }

// classify maps the server's answer to an apply to one of the errors above.
func classify(err error, pre preconditions) error {
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return conflictOf(err, status.Status(), pre)
	case apierrors.IsNotFound(err):
		return &classified{ErrGone, err}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return &classified{ErrNamespaceTerminating, err}
	case apierrors.IsInvalid(err) && refusesUID(status.Status()):
		return &classified{ErrReincarnated, err}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), isSchemaError(status.Status()):
		return &BadIntent{Err: err}
	}
	return err
}

func conflictOf(err error, status metav1.Status, pre preconditions) error {
	if apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		return conflictFromCauses(status.Details.Causes)
	}
	switch {
	case pre.create:
		return &classified{ErrExists, err}
	// The server marks an apply with a uid that meets no object only by this text.
	case pre.uid != "" && strings.Contains(status.Message, "no existing object was found"):
		return &classified{ErrGone, err}
	case pre.resourceVersion != "":
		return &classified{ErrStale, err}
	}
	return err
}

// refusesUID reports whether the server's object has another uid: metadata.uid is immutable, so the answer is a
// validation error.
func refusesUID(status metav1.Status) bool {
	if status.Details == nil {
		return false
	}
	for _, cause := range status.Details.Causes {
		if cause.Field == "metadata.uid" {
			return true
		}
	}
	return false
}

// isSchemaError recognizes the answer to unknown fields, duplicate keys and wrong types. Only its text differs from
// that of a broken server: it is a 500 without a reason.
func isSchemaError(status metav1.Status) bool {
	return status.Code == http.StatusInternalServerError &&
		strings.Contains(status.Message, "failed to create typed patch object")
}

func isUnknownField(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && isSchemaError(status.Status()) &&
		strings.Contains(status.Status().Message, "field not declared in schema")
}

func isGone(err error) bool {
	return errors.Is(err, ErrGone) || errors.Is(err, ErrReincarnated)
}
