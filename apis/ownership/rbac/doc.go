// Package rbac compiles an ownership contract to roles
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/), so that an
// identity may ask of the API server what its rows need, and nothing else:
// subresources apart from objects, patch without create where nothing is born,
// delete where something is removed, and names where they are known.
//
// What a role cannot say is for policies: field managers, fields, and names of
// which only the ending is known. rules.go makes the rules, yaml.go writes
// roles down.
package rbac
