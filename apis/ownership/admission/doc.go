// Package admission compiles an ownership contract to ValidatingAdmissionPolicies
// (https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/), so that the API server
// itself enforces who writes what. Start with Compile.
//
// There is one policy for each kind of the contract. It judges only requests under the contract's field managers or
// by its identities, and only what such a request changes: fields and Update entries that an older contract left
// behind refuse nobody's write. Several identities may write one object, each its own fields.
package admission
