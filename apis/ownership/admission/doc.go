// Package admission compiles an ownership contract to ValidatingAdmissionPolicies
// (https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/),
// so that the API server itself holds who writes what.
//
// There is one policy for each kind of the contract. It judges only requests
// under the contract's field managers or by its identities, and what such a
// request changes, never what stands in the object already: fields and
// Update entries that an older contract left behind refuse nobody's write.
// Several identities may write one object, each its own fields.
//
// policy.go makes the policies, condition.go the condition at which a right
// request ends, identity.go says in CEL who asks, fields.go
// what a request adds to a manager's entry, tracked.go whether there is an
// entry to tell, baseline.go what a pod template may not have its pods do,
// messages.go what people read, and yaml.go writes the policies
// down.
package admission
