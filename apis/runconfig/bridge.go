package runconfig

// How the bridge stands in the pods of a backend that does not speak streamable HTTP.
const (
	// BridgeVersion is another one when the bridge is. A test of cmd/runner/internal/bridge tells when it is due. It is
	// part of the pod template, so whoever raises it keeps the pods that run: package podtemplate renders "1" for ever,
	// and an entry of the renderings (controllers/workload) writes the new version over it.
	BridgeVersion = "1"
	// BridgeCommand is the first argument of the runner's program as a bridge.
	BridgeCommand = "bridge"
	// BridgeContainer is the init container that brings the bridge, or is it.
	BridgeContainer = "bridge"
	// BridgePort is the TCP port of a bridge that stands beside its server.
	BridgePort = 9441
	// BridgeVolume is the volume in which the program is copied for the server's
	// container, and BridgePath where it is mounted.
	BridgeVolume = "freehold-bridge"
	BridgePath   = "/freehold-bridge"
	// ScratchVolume is a volume that ends with the pod, and ScratchPath where the server's container has it.
	ScratchVolume = "freehold-scratch"
	ScratchPath   = "/freehold-scratch"
	// DeclaredPrefix stands in that container before the names of variables that come
	// from envFrom: which names those are is not known before it starts.
	DeclaredPrefix = "FREEHOLD_DECLARED_"
	// EnvProxySum is the environment variable of a bridge with the lower-case hexadecimal SHA-256 of what the proxies of
	// its server show. A bridge without it answers whoever asks, as those of earlier releases do.
	EnvProxySum = "FREEHOLD_PROXY_SHA256"
)

// Bridge is what offers a server of another transport as streamable HTTP.
type Bridge struct {
	// Image is the runner's.
	Image string `json:"image"`
	// PullSecrets are names of Secrets with credentials of that image's registry, sorted.
	PullSecrets []string `json:"pullSecrets,omitempty"`
	// Shared has all sessions use one process of the server; else each has its own.
	Shared bool `json:"shared,omitempty"`
	// Sessions is how many sessions there may be, each with a process of its own.
	Sessions int32 `json:"sessions,omitempty"`
	// IdleSeconds is how long a session lasts that has nothing open; the bridge's own times if zero.
	IdleSeconds int32 `json:"idleSeconds,omitempty"`
}

// PodPort is where a pod of the backend takes calls: the bridge's port where one stands
// beside the server. The Service in front of the pods has Port, and leads there.
func (b Backend) PodPort() int32 {
	if b.Bridge != nil && b.Transport == transportSSE {
		return BridgePort
	}
	return b.Port
}

// transportSSE is the value of Transport for a server with a bridge beside it.
const transportSSE = "sse"
