package apply

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Result says what an Apply did.
type Result int

// The results of an Apply that returned no error.
const (
	// Unchanged means that nothing was sent: the object is as the intent says.
	Unchanged Result = iota
	// Configured means that the intent was applied to an object that existed.
	Configured
	// Created means that the object was created.
	Created
)

// Outcome is what is known of the object after an Apply.
type Outcome struct {
	Result          Result
	UID             types.UID
	ResourceVersion string
	// Repaired is set if the write repaired fields that another writer had changed.
	Repaired *Conflict
	// TakenOver is set if the write took over an object that was handed over, or
	// what a reset of managedFields left to nobody.
	TakenOver *Takeover
	// Rewritten is set if the API server stored other values than the write
	// states, and that is news.
	Rewritten *Rewrite
	// Again is when another Apply is due though nothing happens, 0 if none is.
	Again time.Duration
}

// same is the outcome of an intent that live is like.
func (w *Writer) unchangedOutcome(live client.Object, k memoryKey) Outcome {
	outcome := w.applier.memory.newestOutcome(live, k)
	outcome.Again = w.resend(k)
	return outcome
}
