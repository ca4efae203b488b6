// Package podtemplate builds the pod templates of proxies and backends, as apply
// configurations: complete, canonical, and equal for equal input. It is pure.
//
//   - proxy.go, backend.go: the two templates
//   - bridge.go: what a backend has of ours that does not speak streamable HTTP
//   - security.go, baseline.go, token.go: how containers are confined, and who has the runner's token
//   - overlay*.go: the user's podTemplate over that of the release, refused by name or merged
//   - valid.go, walk.go: what the API server would refuse, said with what to write instead
//   - problem.go: what cannot be rendered
//   - canonical.go: core types as intents
//
// Canonical means: as the API server would store it. An intent that the server rewrites (a quantity of 1000m, a
// fieldRef without apiVersion, an empty value) is a write on every pass once a second manager applies to the object.
package podtemplate
