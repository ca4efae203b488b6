// Package workload builds every child of a server, or of an owner of another kind
// that has a proxy, as apply configurations: complete, canonical, and equal for equal input. It is pure.
//
//   - owner.go: whose children they are; names.go, labels.go: what they are called and how they are found
//   - content.go: the content of an owner, rendered once, its hash, and what cannot be rendered
//   - proxy.go, backend.go: the two pod templates and what runs them
//   - service.go, configmap.go, rbac.go: the rest
//   - security.go, baseline.go, token.go: how containers are confined, and who has the runner's token
//   - overlay*.go, walk.go: the user's podTemplate, refused by name or merged
//   - canonical.go: core types as intents
//
// Canonical means: as the API server would store it. An intent that the server
// rewrites (a quantity of 1000m, a fieldRef without apiVersion, an empty value)
// is a write on every pass once a second manager applies to the object.
package workload
