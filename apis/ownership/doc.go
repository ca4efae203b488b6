// Package ownership is the contract: one table that says which field manager
// may write which field of which object. Everything that enforces ownership
// (the writer, documentation, roles, admission policies, the kubectl plugin)
// is derived from it.
//
// path.go is the language fields are named in, and notation.go writes it,
// contract.go is the shape of the table and the pure functions on it,
// manager.go the names of our managers, grants_*.go the table itself, owners.go
// what a live object's managedFields say, verdict.go what the table says of
// that, and markdown.go the table as a page for people.
//
// The package imports no client and knows none of our Go types, so that
// authors of other controllers can use it for kinds of their own.
package ownership
