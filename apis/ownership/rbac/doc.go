// Package rbac compiles an ownership contract to roles (https://kubernetes.io/docs/reference/access-authn-authz/rbac/)
// with exactly the rights that the rows of an identity need: subresources apart from objects, patch without create
// where nothing is created, delete where something is removed, and names where they are known. Start with Rules.
//
// Field managers, fields, and names of which only the ending is known are left to policies.
package rbac
