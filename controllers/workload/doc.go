// Package workload builds every child of a server, or of an owner of another kind
// that has a proxy, as apply configurations: complete, canonical, and equal for equal input. It is pure.
//
//   - owner.go: whose children they are; names.go, labels.go: what they are called and how they are found
//   - content.go: the content of an owner, rendered once, its hash, and what cannot be rendered
//   - proxy.go, backend.go: what runs the pods, whose templates are controllers/podtemplate's
//   - network.go: who may connect to the backend
//   - runner.go, rbac.go: what the runner is given, run config and keys, and may do
//   - service.go: where clients and the proxy call
//
// All of it is canonical, as controllers/podtemplate says.
package workload
