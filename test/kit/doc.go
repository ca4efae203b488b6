// Package kit is what Freehold is tested with: a real kube-apiserver and etcd, beside them the real
// kube-controller-manager, and a kubelet and scheduler in Go that pretend to run pods. Only pods are faked; admission,
// field ownership, garbage collection, ReplicaSets, StatefulSets and namespace deletion are those of Kubernetes.
//
// plane.go and manager.go start and stop the processes, files.go finds them, options.go says how, process.go kills some
// and starts them again; program.go runs other programs; install.go does what the chart does for an operator;
// kubelet.go, fate.go and missing.go are the pods, runners.go what runs in those of a proxy; requests.go counts what a
// client sends; env.go is one test's namespace and what can be done in it, await.go waits by watch, recording.go
// records every state of one object, owners.go and versions.go judge ownership and quiet, turn.go lets one of several
// processes go at a time, seed.go is where chance begins, fields.go has the API server's field managers in process,
// others.go has what the suites of other authors need beside all that, and describe.go says what a stranger needs to
// see when a test fails.
package kit
