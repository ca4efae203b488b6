// Package contract is Freehold's own contract, in the language of apis/ownership: who writes which field of which
// object, who deletes, and what else the identities may do.
//
// Freehold joins the rows. Each controller has one file with its managers, its identity and its rows, and so has the
// operator's process, which reads for all of them. policies.go has what the API server enforces beside the rows.
package contract
