// Package apply is the only writer. A Writer is bound to one field manager of
// an ownership.Contract; it can apply complete statements about objects,
// release what it owns, and nothing else. There is no Create, Update or Patch.
//
// The package knows no kind of Freehold: any operator that is made with
// controller-runtime can use it, with a contract of its own. docs/library.md
// is its guide, and test/library/operator an operator that does.
//
// An operator has one Applier, made by New from its manager's client, and asks
// it As which manager to write. What it must know:
//
//   - Apply is given the object as it was read, with its managedFields: a cache
//     must not strip them from what is written. The time at which it was read
//     does not matter, and nothing waits for the cache.
//   - An intent is complete. What the manager owned and the intent no longer
//     states is given up, and removed if nobody else owns it.
//   - Nothing is sent if the object is as the intent says and the manager owns
//     just that, so a pass may state everything every time. A condition's time
//     must then be kept while its status is the same.
//   - An intent about an object that the manager may create should state its
//     controller: an object of the name that has another one, and that the
//     manager never wrote, is answered with ErrForeign and left alone. One that has none
//     gets it back only while the server says that the controller stays.
//   - Where the contract has a Takeover, such an object can be handed over by an
//     annotation. Its managedFields are then moved, by the one write that is
//     neither an apply nor a deletion, and only within the contract.
//   - What the API server answers is the state that is remembered. Where admission
//     changes what an intent states, Outcome.Rewritten says so once, and
//     Outcome.Again when an Apply is due that finds out whether it still does.
//   - Whether an apply is forced, and whether it may create, is said by the
//     grant and not by the caller.
//
// intent.go freezes an apply configuration to bytes, preconditions.go says
// what a write may be made conditional on, writer.go sends it, outcome.go says what came of it, unchanged.go
// finds that nothing has to be sent, values.go compares for it, memory.go
// remembers what was sent, rewritten.go what the server made of it, errors.go and conflict.go
// name what can go wrong, owner.go looks whether an owner stays, and retry.go says when it is tried again. read.go asks
// the server where a cache cannot know, takeover.go takes over, remove.go
// deletes, impersonate.go says as whom, convert.go knows the schemas.
//
// The rules are those of
// https://kubernetes.io/docs/reference/using-api/server-side-apply/; what the
// API server does beyond them is said where it matters.
package apply
