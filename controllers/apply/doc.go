// Package apply is the only writer. A Writer is bound to one field manager of
// an ownership.Contract; it can apply complete statements about objects,
// release what it owns, and nothing else. There is no Create, Update or Patch.
//
// intent.go freezes an apply configuration to bytes, preconditions.go says
// what a write may be made conditional on, writer.go sends it, unchanged.go
// finds that nothing has to be sent, values.go compares for it, memory.go
// remembers what was sent, and errors.go names what can go wrong. read.go asks
// the server where a cache cannot know, remove.go deletes, lease.go is leader
// election, convert.go knows the schemas.
//
// The rules are those of
// https://kubernetes.io/docs/reference/using-api/server-side-apply/; what the
// API server does beyond them is said where it matters.
package apply
