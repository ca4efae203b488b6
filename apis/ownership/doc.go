// Package ownership is the language of contracts: one table that says which
// field manager may write which field of which object. Everything that enforces
// ownership (the writer, documentation, roles, admission policies, the kubectl
// plugin) is derived from it.
//
// path.go is the language fields are named in, and notation.go writes it,
// contract.go is the shape of the table and the pure functions on it, owners.go
// what a live object's managedFields say, verdict.go what the table says of
// that, and markdown.go the table as a page for people.
//
// The package imports no client and knows no kind of ours, so that authors of
// other controllers can use it: they build a Contract, Check it in a test, and
// give it to controllers/apply. docs/library.md is their guide. Freehold's own
// contract is apis/contract.
package ownership
