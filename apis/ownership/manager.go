package ownership

// Manager is the name of a field manager. It is stable: it names a purpose,
// never an instance, because the API server keeps an entry for every name it
// has seen and does not cap those of appliers.
type Manager string

// The managers of the MCPServer controller.
const (
	// MCPServerFinalizer holds our finalizer, and nothing else, so that
	// releasing it is an apply of nothing.
	MCPServerFinalizer Manager = "mcpserver.freehold.dev/finalizer"
	// MCPServerWorkload claims workload generations.
	MCPServerWorkload Manager = "mcpserver.freehold.dev/workload"
	// MCPServerConditions states conditions and the generation they speak of.
	MCPServerConditions Manager = "mcpserver.freehold.dev/conditions"
	// MCPServerStatus states what else was observed.
	MCPServerStatus Manager = "mcpserver.freehold.dev/status"
	// MCPServerChildren builds the objects around the proxy.
	MCPServerChildren Manager = "mcpserver.freehold.dev/children"
	// MCPServerScale carries spec.replicas to the backend StatefulSet.
	MCPServerScale Manager = "mcpserver.freehold.dev/scale"
)

// The managers of the runner in the proxy pod.
const (
	// RunnerBackend builds the backend StatefulSet and its Services.
	RunnerBackend Manager = "runner.freehold.dev/backend"
	// RunnerReport states what the runner sees at run time.
	RunnerReport Manager = "runner.freehold.dev/report"
)

// OperatorLease holds the operator's leader election.
const OperatorLease Manager = "operator.freehold.dev/lease"

// The identities that write: ServiceAccount names, where SERVER stands for the
// name of the MCPServer.
const (
	IdentityOperator = "freehold-operator"
	IdentityRunner   = "SERVER-runner"
)

// Finalizer is the finalizer that the MCPServer controller holds while a
// server's proxy and backend still run.
const Finalizer = "freehold.dev/mcpserver"

// AdoptAnnotation with the value "true" hands a child that stands in another
// hand over to the server whose child's name it has.
const AdoptAnnotation = "freehold.dev/adopt"
