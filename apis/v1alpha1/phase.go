package v1alpha1

// WorkloadPhase is how a workload fares. It says for programs what the condition Ready says in words.
// +kubebuilder:validation:Enum=Starting;Updating;Serving;Pending;Unavailable;Failing;Faulty;Refused;Blocked;Unresolved;Stopping;Stopped
type WorkloadPhase string

const (
	// PhaseStarting means that the first content is on its way.
	PhaseStarting WorkloadPhase = "Starting"
	// PhaseUpdating means that new content is on its way.
	PhaseUpdating WorkloadPhase = "Updating"
	// PhaseServing means that calls are served with the content of the spec.
	PhaseServing WorkloadPhase = "Serving"
	// PhasePending means that calls are served with the content before, until it is the workload's turn to take a
	// changed configuration.
	PhasePending WorkloadPhase = "Pending"
	// PhaseUnavailable means that the content has rolled out, and no pod of it is ready.
	PhaseUnavailable WorkloadPhase = "Unavailable"
	// PhaseFailing means that a pod, the runner or the MCP server fails, which may pass by itself.
	PhaseFailing WorkloadPhase = "Failing"
	// PhaseFaulty means the same, where waiting seldom helps.
	PhaseFaulty WorkloadPhase = "Faulty"
	// PhaseRefused means that the API server refuses a write.
	PhaseRefused WorkloadPhase = "Refused"
	// PhaseBlocked means that no content can be taken until a person changes something.
	PhaseBlocked WorkloadPhase = "Blocked"
	// PhaseUnresolved means that a configuration to which the workload refers cannot be followed.
	PhaseUnresolved WorkloadPhase = "Unresolved"
	// PhaseStopping means that the spec asks for no pods, and that some are left.
	PhaseStopping WorkloadPhase = "Stopping"
	// PhaseStopped means that the spec asks for no pods, and that none are left.
	PhaseStopped WorkloadPhase = "Stopped"
)
