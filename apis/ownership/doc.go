// Package ownership is the language of contracts: one table that says which
// field manager may write which field of which object. Everything that enforces
// ownership (the writer, documentation, roles, admission policies, the kubectl
// plugin) is derived from it. Freehold's own table is Freehold.
//
// path.go is the language fields are named in, and notation.go writes it,
// contract.go is the shape of the table and the pure functions on it,
// manager.go the names of our managers and identities, grants_*.go the table
// itself, owners.go
// what a live object's managedFields say, verdict.go what the table says of
// that, and markdown.go the table as a page for people.
//
// The package imports no client and knows none of our Go types, so that
// authors of other controllers can use it for kinds of their own: they build a
// Contract as Freehold does, Check it in a test, and give it to
// controllers/apply. Of what is here, the managers, identities and objects in
// manager.go and grants_*.go are Freehold's and mean nothing to them.
// docs/library.md is their guide.
package ownership
