package apply

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Result is what an Apply did.
type Result int

const (
	// Unchanged means that nothing was sent: the object matches the intent.
	Unchanged Result = iota
	// Configured means that the intent was applied to an existing object.
	Configured
	// Created means that the object was created.
	Created
)

// Outcome describes the object after an Apply.
type Outcome struct {
	Result          Result
	UID             types.UID
	ResourceVersion string
	// Repaired is set if the write repaired fields that another writer had changed.
	Repaired *Conflict
	// TakenOver is set if the write took over an object that was handed over, or fields that a reset of managedFields
	// left to nobody.
	TakenOver *Takeover
	// Rewritten is set if the API server stored other values than stated, the first time.
	Rewritten *Rewrite
	// RequeueAfter is the time until the next Apply is due without an event, 0 if none is.
	RequeueAfter time.Duration
}

func (w *Writer) unchangedOutcome(live client.Object, k memoryKey) Outcome {
	outcome := w.applier.memory.newestOutcome(live, k)
	outcome.RequeueAfter = w.resend(k)
	return outcome
}
