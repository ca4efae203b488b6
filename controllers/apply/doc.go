// Package apply is the only writer. A Writer is bound to one field manager of an ownership.Contract; it applies
// complete statements about objects, releases what it owns, and nothing else. There is no Create, Update or Patch.
//
// The package knows no kind of Freehold: any operator that is made with controller-runtime can use it, with a contract
// of its own. docs/library.md is its guide, and test/library/operator an operator that does.
//
// An operator has one Applier, made by New from its manager's client; As returns the Writer of a manager. Writer.Apply
// is the function to read first. Its rules:
//
//   - live is the object as it was read, with its managedFields: a cache must not strip them. It may be stale.
//   - An intent is complete. The manager gives up what it no longer states, which is removed if nobody else owns it.
//   - Nothing is sent if the object matches the intent and the manager owns exactly that, so a pass may state
//     everything every time. It must keep a condition's time while the status is the same.
//   - An intent about an object that the manager may create should state its controller: an object of the name that
//     has another one, and that the manager never wrote, is ErrForeign. A missing controller is put back only while
//     the server shows that the controller stays.
//   - Where the contract has a Takeover, an annotation hands such an object over. Its managedFields are then moved, by
//     the one write that is neither an apply nor a deletion, and only within the contract.
//   - The server's answer is the state that is remembered. Where admission changes what an intent states,
//     Outcome.Rewritten lists it once, and Outcome.RequeueAfter is when an Apply is due that checks it again.
//   - The grant, and not the caller, decides whether an apply is forced, and whether it may create.
//
// The rules of the API server are those of https://kubernetes.io/docs/reference/using-api/server-side-apply/; what it
// does beyond them is described where it matters.
package apply
