package v1alpha1

// StdioProcess says which sessions share a process of the server.
// +kubebuilder:validation:Enum=PerSession;Shared
type StdioProcess string

const (
	// StdioPerSession starts a process for each session.
	StdioPerSession StdioProcess = "PerSession"
	// StdioShared has all sessions of a pod use one process.
	StdioShared StdioProcess = "Shared"
)

// StdioSpec says how a server of transport stdio runs in its pod.
type StdioSpec struct {
	// process says which sessions share a process of the server. With PerSession each
	// session of a client has its own, which ends with it. With Shared all sessions
	// of a pod use one: less memory, but the server cannot ask a client anything
	// (sampling, elicitation, roots), and what it remembers of one client it may
	// show to another. Requests of revision 2026-07-28, which has no sessions,
	// always share one. The default is PerSession.
	// +optional
	// +default="PerSession"
	// +kubebuilder:default="PerSession"
	Process StdioProcess `json:"process,omitempty"`

	// maxSessions is how many sessions a pod has at a time with PerSession, from 1 to
	// 1000. The default is 100. One more ends the session that has been idle longest,
	// for at least a minute, and is refused where there is none. With a login one
	// caller has at most half of them. Each takes as much memory as one process of the
	// server.
	// +optional
	// +default=100
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 1000",message="write how many sessions a pod may have, 1 to 1000"
	MaxSessions int32 `json:"maxSessions,omitempty"`

	// sessionIdleSeconds is how long a session lasts that has no call and no stream
	// open, from 60 to 86400 seconds. Unset is 1800, or 300 where the client has closed
	// the stream that it held open and sent nothing since: many clients leave without
	// ending their session. With PerSession its process ends with it.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:validation:XValidation:rule="self >= 60 && self <= 86400",message="write how many seconds an idle session lasts, 60 to 86400"
	SessionIdleSeconds int32 `json:"sessionIdleSeconds,omitempty"`
}
