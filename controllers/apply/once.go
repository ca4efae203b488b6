package apply

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// createOnce creates the object and accepts any existing one without reading it. It forgets the write, so that a
// caller that sees no live object creates a deleted one again.
func (w *Writer) createOnce(
	ctx context.Context, live client.Object, in intent, grant ownership.Grant, k memoryKey,
) (Outcome, error) {
	if !absent(live) {
		return Outcome{UID: live.GetUID(), ResourceVersion: live.GetResourceVersion()}, nil
	}
	outcome, err := w.send(ctx, in, grant, k, preconditions{create: true})
	w.applier.memory.forget(k)
	// If other managers hold the fields, the API server answers so before it checks the version.
	var theirs *Conflict
	if errors.Is(err, ErrExists) || errors.As(err, &theirs) {
		return Outcome{}, nil
	}
	return outcome, err
}
