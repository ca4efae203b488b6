package runconfig

// ReachCommand is the first argument of the runner's program where it measures whether NetworkPolicies keep its pod
// from a server's backend.
const ReachCommand = "reach"

// What that program exits with: the backend is closed to the pod, it is open, or nothing can be said, since its proxy
// is not reached either. Anything else measures nothing.
const (
	ReachClosed  = 0
	ReachOpen    = 1
	ReachUnknown = 3
)
