// Package ownership is the language of contracts: one table of which field manager may write which field of which
// object. Everything that enforces ownership (the writer, documentation, roles, admission policies, the kubectl plugin)
// is derived from it. Start with Contract; Path is how fields are named, Judge what the table says of a live object.
//
// The package imports no client and knows no kind of ours, so that authors of other controllers can use it: they
// build a Contract, Check it in a test, and give it to controllers/apply. docs/library.md is their guide. Freehold's
// own contract is apis/contract.
package ownership
