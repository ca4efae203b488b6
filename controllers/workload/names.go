package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/runspec"
)

// The names of containers, ports and volumes of ours.
const (
	// ProxyContainer runs the runner's image.
	ProxyContainer = "proxy"
	// ServerContainer runs the user's image.
	ServerContainer = "server"
	// PortMCP is the port that speaks MCP, in pods and Services.
	PortMCP = "mcp"
	// PortProbes is the port of the proxy pod that answers probes.
	PortProbes = "probes"

	runVolume = "run-config"
	runInfix  = "-run-"
	hashChars = 10
)

// The names of a server's objects. A server's name has at most 44 characters,
// so the StatefulSet's has at most 52, which leaves room for the hash that the
// StatefulSet controller puts behind it in a label, and every Service's has at
// most 63.

// RunnerName is the ServiceAccount, Role and RoleBinding of the runner.
func RunnerName(server string) string { return server + runnerSuffix }

// ProxyName is the proxy's Deployment and Service.
func ProxyName(server string) string { return server + "-proxy" }

// BackendName is the backend's StatefulSet and the Service that the proxy
// calls.
func BackendName(server string) string { return server + "-backend" }

// HeadlessName is the Service that names the backend's pods.
func HeadlessName(server string) string { return server + "-backend-headless" }

// RunConfigName is the ConfigMap of one workload generation. Number and hash
// are both in it, so that a pod cannot mount the content of another revision.
func RunConfigName(server string, rev revision.Revision) string {
	hash := rev.Hash
	if len(hash) > hashChars {
		hash = hash[:hashChars]
	}
	return server + runInfix + strconv.FormatInt(rev.Generation, 10) + "-" + hash
}

// IsRunConfigName reports whether name is that of a run config of the server.
// Number and hash hold no dash, so that no other server has one of this name:
// echo-run-run-1-abc is of echo-run alone.
func IsRunConfigName(server, name string) bool {
	rev, found := strings.CutPrefix(name, server+runInfix)
	number, hash, _ := strings.Cut(rev, "-")
	_, err := revision.Parse(number, hash)
	return found && err == nil && !strings.Contains(hash, "-")
}

// IsChildName reports whether name is one that an object of the server has.
func IsChildName(server, name string) bool {
	return slices.Contains([]string{RunnerName(server), ProxyName(server), BackendName(server), HeadlessName(server)}, name) ||
		IsRunConfigName(server, name)
}

// URL is where clients in the cluster call a server. The host is
// NAME.NAMESPACE.svc, which resolves under every cluster domain.
func URL(server *v1alpha1.MCPServer) string {
	proxy := runspec.Proxy(server)
	return fmt.Sprintf("http://%s.%s.svc:%d%s", ProxyName(server.Name), server.Namespace, proxy.Port, proxy.Path)
}
