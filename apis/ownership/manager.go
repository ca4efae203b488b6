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
	// MCPServerChildren builds the objects around the proxy, but for the runner's
	// rights.
	MCPServerChildren Manager = "mcpserver.freehold.dev/children"
	// MCPServerScale carries spec.replicas to the backend StatefulSet.
	MCPServerScale Manager = "mcpserver.freehold.dev/scale"
)

// RBACChildren gives runners their rights, and writes nothing else.
const RBACChildren Manager = "rbac.freehold.dev/children"

// The managers of the runner in the proxy pod.
const (
	// RunnerBackend builds the backend StatefulSet and its Services.
	RunnerBackend Manager = "runner.freehold.dev/backend"
	// RunnerReport states what the runner sees at run time.
	RunnerReport Manager = "runner.freehold.dev/report"
)

// The identities of the contract: ServiceAccount names, where SERVER stands for
// the name of the MCPServer.
const (
	// IdentityOperator is the operator's process. It reads, reports events and
	// holds the leader's Lease; it writes what is granted as one of Controllers.
	IdentityOperator = "freehold-operator"
	// IdentityMCPServer is the MCPServer controller.
	IdentityMCPServer = "freehold-mcpserver"
	// IdentityRBAC makes Roles. It alone has the rights of runners, because the
	// API server lets nobody grant what they do not have.
	IdentityRBAC = "freehold-rbac"
	// IdentityRunner is the runner of one server.
	IdentityRunner = "SERVER-runner"
)

// Controllers are the identities that the operator's process writes as.
func Controllers() []string { return []string{IdentityMCPServer, IdentityRBAC} }

// LeaseName is the name of the Lease of the operator's leader election. The Lease
// is a lock and not part of the contract: no manager has a grant on it.
const LeaseName = "freehold-operator"

// Finalizer is the finalizer that the MCPServer controller holds while a
// server's proxy and backend still run.
const Finalizer = "freehold.dev/mcpserver"

// AdoptAnnotation with the value "true" hands a child that stands in another
// hand over to the server whose child's name it has.
const AdoptAnnotation = "freehold.dev/adopt"
