// Package contract is Freehold's own contract, in the language of
// apis/ownership: who writes which field of which object, who deletes, and what
// else the identities may do.
//
// contract.go joins the rows and has the objects that they are about. Each
// controller has one file with its managers, its identity and its rows:
// mcpserver.go, rbac.go (who gives runners their rights), runner.go; and
// operator.go the process that reads for all of them. policies.go is what the
// API server holds beside the rows.
package contract
