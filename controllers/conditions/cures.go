package conditions

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// The containers that our pod templates always have.
const (
	serverContainer = "server"
	proxyContainer  = "proxy"
)

// Cures name the fields and actions that fix a pod.
type Cures struct {
	// Pull says what to check of an image that cannot be pulled, User what to do about one that runs as root. Env,
	// Volumes and Overlay are fields: of references, and of anything else in a pod.
	Pull, User, Env, Volumes, Overlay string
	// Bridge is what to check of the image of the bridge in a backend's pod.
	Bridge string
	// Write is what to do about one that cannot write to its image's folders.
	Write string
	// Volume are fields by the name of a volume, where they are not Volumes.
	Volume map[string]string
	// Main is the container that does the pod's work, Resources are the fields of a container's resources where they are
	// not in Overlay, and Replicas is the field of the number of pods.
	Main      string
	Resources map[string]string
	Replicas  string
	// Port is where the backend's image should listen; Upstream is what must answer before a proxy pod is ready.
	Port     int32
	Upstream string
}

// The cures of backend and proxy.
var (
	OfBackend = Cures{
		Pull: "check its name, and spec.imagePullSecrets if it is private",
		User: "set spec.podTemplate.spec.securityContext.runAsUser to the number of another user, use an image that names " +
			"one, or allow root with runAsNonRoot: false there",
		Env: "spec.env or spec.envFrom", Volumes: "spec.volumes", Overlay: "spec.podTemplate.spec",
		Write: "if its user may not write there, have HOME, or the variable that names the folder, lead to one that it can " +
			"write, in spec.env, or mount a volume with spec.volumes and spec.volumeMounts",
		Bridge: "it is the runner's: keep it in its registry, or change spec.restartedAt to take that of this release; " +
			"check runner.image and runner.imagePullSecrets among the operator's chart values",
		// The bridge's own resources suffice; a quota that wants more can be met for the pod as a whole.
		Main: serverContainer,
		Resources: map[string]string{
			serverContainer:           "spec.resources",
			runconfig.BridgeContainer: "spec.podTemplate.spec.resources",
		},
		Replicas: "spec.replicas",
	}
	OfProxy = Cures{
		Pull: "check runner.image among the operator's chart values, and runner.imagePullSecrets if it is private; for a " +
			"container of your own, spec.proxy.podTemplate",
		User: "set spec.proxy.podTemplate.spec.securityContext.runAsUser to the number of another user, or use an image " +
			"that names one",
		Env: "spec.proxy.podTemplate", Volumes: "spec.proxy.podTemplate", Overlay: "spec.proxy.podTemplate.spec",
		Volume: map[string]string{
			runconfig.LoginVolume:  "spec.oidc of the MCPOIDCConfig",
			runconfig.RemoteVolume: "spec.caBundleRef or spec.headers",
		},
		Main:      proxyContainer,
		Resources: map[string]string{proxyContainer: "spec.proxy.resources"},
		Replicas:  "spec.proxy.replicas",
	}
)

// correct asks to correct a field of a container, unless the container is ours.
func (c Cures) correct(container, field string) string {
	if container == proxyContainer || container == runconfig.BridgeContainer {
		return ""
	}
	return fmt.Sprintf(": correct %s.containers[name=%s].%s", c.Overlay, container, field)
}

// listens says what a backend pod needs that accepts no connection at the port of its image.
func (c Cures) listens(port string) string {
	if port != strconv.Itoa(int(c.Port)) {
		return ""
	}
	return ": a pod of the backend is ready once its image listens on spec.port, on all addresses"
}

func (c Cures) resources(name string) string {
	if field, ok := c.Resources[name]; ok {
		return field
	}
	return fmt.Sprintf("%s.containers[name=%s].resources", c.Overlay, name)
}

func (c Cures) volume(name string) string {
	if field, ok := c.Volume[name]; ok {
		return field
	}
	return c.Volumes
}

// missing are the fields for which a quota lacks a number. words are the quota's, such as limits.cpu for: a,b;
// limits.memory for: a.
func (c Cures) missing(words string) string {
	var fields []string
	for part := range strings.SplitSeq(words, "; ") {
		resource, containers, _ := strings.Cut(part, " for: ")
		if !strings.Contains(resource, ".") {
			resource = "requests." + resource // what a quota calls cpu are requests
		}
		for name := range strings.SplitSeq(containers, ",") {
			fields = append(fields, c.resources(strings.TrimSpace(name))+"."+strings.TrimSpace(resource))
		}
	}
	slices.Sort(fields)
	return strings.Join(slices.Compact(fields), ", ")
}
