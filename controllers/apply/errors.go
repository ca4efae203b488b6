package apply

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// What can go wrong with a write, beside a Conflict and the network.
var (
	// ErrExists is returned by a birth that met an object: look again.
	ErrExists = errors.New("the object exists")
	// ErrForeign is returned for an object of the name that this manager did not
	// write, and that the owner in the intent does not control. Nothing is written.
	ErrForeign = errors.New("an object of this name exists that is not controlled by the same owner")
	// ErrHandedOver is ErrForeign for an object that was handed over, where nothing is to
	// be taken over (Untaken).
	ErrHandedOver = fmt.Errorf("%w, and was handed over", ErrForeign)
	// ErrOwnerGone is returned by a write that would add an owner to an object, if that
	// owner is being deleted or gone.
	ErrOwnerGone = errors.New("the owner is being deleted, or is gone")
	// ErrGone is returned if the object that was read no longer exists.
	ErrGone = errors.New("the object is gone")
	// ErrReincarnated is returned if the object was deleted and made anew
	// since it was read.
	ErrReincarnated = errors.New("the object is another one of the same name")
	// ErrStale is returned by a write that is made at a version, and by a deletion, if the
	// object moved since it was read: look again.
	ErrStale = errors.New("the object changed since it was read")
	// ErrNamespaceTerminating is returned by a birth in a namespace that is
	// being deleted. There is nothing left to do there.
	ErrNamespaceTerminating = errors.New("the namespace is being deleted")
	// ErrStripped is returned for a live object without the managedFields that
	// the server has: the cache that served it strips them, and without them
	// nothing can be said about ownership.
	ErrStripped = errors.New("the object was read without its managedFields: remove the cache transform that strips them")
)

// NotGranted says that an intent states fields outside the contract, or that
// there is no grant at all. Nothing was sent. It is a defect of the caller.
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

// BadIntent says that the intent itself is refused: it cannot be frozen, or the
// server refuses it by schema, validation or admission. The same intent is taken
// only after another party has changed that, such as a policy.
type BadIntent struct{ Err error }

func (e *BadIntent) Error() string { return e.Err.Error() }
func (e *BadIntent) Unwrap() error { return e.Err }

// olderSchema words that the API server does not know a field of a kind of which this
// program has the schema: the definition in the cluster is that of another release.
func olderSchema(kind string, answer error) error {
	return fmt.Errorf("the CustomResourceDefinition of %s in the cluster is older than this program: apply the CRDs of "+
		"this release: %w", kind, answer)
}

// named is an answer of the API server that has one of the names above.
type classified struct{ name, answer error }

func (e *classified) Error() string        { return e.name.Error() + ": " + e.answer.Error() }
func (e *classified) Is(target error) bool { return target == e.name }
func (e *classified) Unwrap() error        { return e.answer }

// classify turns the server's answer to an apply into one of the errors above.
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
	case pre.birth:
		return &classified{ErrExists, err}
	// An apply that carries a uid and meets no object is a plain conflict; the
	// server says so only in words.
	case pre.uid != "" && strings.Contains(status.Message, "no existing object was found"):
		return &classified{ErrGone, err}
	case pre.resourceVersion != "":
		return &classified{ErrStale, err}
	}
	return err
}

// refusesUID reports whether the server found another uid than the intent's:
// metadata.uid is immutable, so the answer is a validation error.
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

// isSchemaError recognises what typed conversion answers to unknown fields,
// duplicate keys and wrong types: a 500 without a reason, to be told from a
// broken server by its words only.
func isSchemaError(status metav1.Status) bool {
	return status.Code == http.StatusInternalServerError &&
		strings.Contains(status.Message, "failed to create typed patch object")
}

// isUnknownField reports whether such an answer is about a field that the schema of the
// kind in the cluster does not have.
func isUnknownField(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && isSchemaError(status.Status()) &&
		strings.Contains(status.Status().Message, "field not declared in schema")
}

// isGone reports whether the object that was meant no longer exists.
func isGone(err error) bool {
	return errors.Is(err, ErrGone) || errors.Is(err, ErrReincarnated)
}
