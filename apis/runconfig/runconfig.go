// Package runconfig is what the operator tells the runner: the content of one workload generation of one server, as a
// file that never changes.
//
// runconfig.go has the format, codec.go reads and writes it, hash.go names its content; routing.go is what a proxy
// tells the operator. The package imports no client, so that other tools may read the formats.
package runconfig

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// Version is the format that this package reads and writes.
const Version = "v1"

// Where the runner finds its run config and its revision.
const (
	// FileName is the key in the ConfigMap and the name of the file.
	FileName = "run.json"
	// MountPath is the directory that holds FileName.
	MountPath = "/etc/freehold"
	// LoginVolume is the volume of the proxy's pod that holds the files of Authentication, LoginPath the directory where
	// the proxy mounts it, and CAFile and ClientSecretFile are the files of CABundle and ClientSecret there.
	LoginVolume = "login"
	LoginPath   = "/etc/freehold-login"
	CAFile      = "ca.crt"

	ClientSecretFile = "client-secret"
	// SessionPath is the directory where the proxy mounts the Secret with the keys of session ids, and SessionKey the
	// entry with which they are sealed; they are opened with each.
	SessionPath = "/etc/freehold-session"
	SessionKey  = "current"
	// RemoteVolume and RemotePath are the same of the files of Remote: CAFile of
	// CABundle there, and HeaderFile of each header with a Secret.
	RemoteVolume = "remote"
	RemotePath   = "/etc/freehold-remote"
	// StatePath is a directory of the proxy's pod that outlasts its container, for what the proxy has to know when it
	// starts while the API server is away.
	StatePath = "/var/lib/freehold"
	// DefaultGrace is how many seconds a proxy's pods have to end where nobody says.
	DefaultGrace = 60
	// ProbePort is the TCP port on which the proxy answers probes.
	ProbePort = 9440
	// CallPort is the port of the backend's Service at which proxies call, whatever the
	// backend's pods listen on: while that changes, proxies of both contents call.
	CallPort = 9443
	// PeerPort is the TCP port on which proxies in front of a server elsewhere that needs a
	// bridge call each other, and EnvPodIP the environment variable with the pod's address.
	PeerPort = 9442
	EnvPodIP = "FREEHOLD_POD_IP"
	// EnvGeneration is the environment variable with the workload generation that the pod was made for, decimal.
	EnvGeneration = "FREEHOLD_WORKLOAD_GENERATION"
	// EnvHash is the environment variable with the hash of that content.
	EnvHash = "FREEHOLD_WORKLOAD_HASH"
)

// RunConfig is one workload generation of one server. Two RunConfigs with the same ContentHash ask for the same pods,
// and two with the same Rendering.Backend for the same pods of the backend.
type RunConfig struct {
	// Version of the format, see the constant.
	Version string `json:"version"`
	// Server whose workload this is.
	Server Server `json:"server"`
	// Workload is the revision under which the operator claimed this content.
	Workload Workload `json:"workload"`
	// Backend is what the runner applies; zero where Remote or Virtual is not nil.
	Backend Backend `json:"backend,omitzero"`
	// Remote is the server elsewhere to which calls go; nil for any other.
	Remote *Remote `json:"remote,omitempty"`
	// Virtual is how the members of a virtual server are offered; nil for any other.
	Virtual *Virtual `json:"virtual,omitempty"`
	// Proxy is how the runner serves.
	Proxy Proxy `json:"proxy"`
	// NotEnforced are the fields of the MCPServer that this version cannot enforce, for example spec.authzConfig,
	// sorted. Where it is not empty the proxy answers every call with 503.
	NotEnforced []string `json:"notEnforced,omitempty"`
	// Rendering names the two pod templates. It covers what the runner's image and a new operator version change.
	Rendering Rendering `json:"rendering"`
}

// Target is one server that a proxy serves: what a call for it meets, and where it goes.
type Target struct {
	Server      Server
	Backend     Backend
	Remote      *Remote
	Virtual     *Virtual
	Proxy       Proxy
	NotEnforced []string
	Rendering   Rendering
}

// Targets are the servers of a run config, by the path at which its proxy serves each. The format has one, whose fields
// are the run config's own: with a map in it the content of every server would have another hash, and its pods be
// replaced.
func (c RunConfig) Targets() map[string]Target {
	return map[string]Target{c.Proxy.Path: {
		Server: c.Server, Backend: c.Backend, Remote: c.Remote, Virtual: c.Virtual, Proxy: c.Proxy,
		NotEnforced: c.NotEnforced, Rendering: c.Rendering,
	}}
}

// Bridged reports whether a bridge is called, which may start a server first, and is told who calls.
func (t Target) Bridged() bool {
	return t.Backend.Bridge != nil || t.Remote != nil && t.Remote.Bridged()
}

// Rendering are hashes of pod templates without what they are told of each other: lower-case hexadecimal SHA-256.
type Rendering struct {
	// Proxy is the hash of the proxy's pod template without its revision.
	Proxy string `json:"proxy"`
	// Backend is the hash of the backend's pod template: the content of its pods alone, which carry it. Under another
	// workload generation with the same hash no pod of the backend is replaced. Empty where there is none.
	Backend string `json:"backend,omitempty"`
}

// Server identifies an MCPServer, or an object of another kind with a proxy.
type Server struct {
	// Kind is empty for an MCPServer.
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// Workload is a workload generation and the ContentHash that it was given to.
type Workload struct {
	// Generation is 1 or more.
	Generation int64 `json:"generation"`
	// Hash is lower-case hexadecimal SHA-256.
	Hash string `json:"hash"`
}

// Backend is the user's part of the backend's pods, as the MCPServer says it.
type Backend struct {
	Image   string                 `json:"image"`
	Command []string               `json:"command,omitempty"`
	Args    []string               `json:"args,omitempty"`
	Env     []corev1.EnvVar        `json:"env,omitempty"`
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`
	// Port is the TCP port on which the image listens.
	Port int32 `json:"port"`
	// Path of the MCP endpoint, at the image and at the proxy.
	Path string `json:"path"`
	// Transport is streamable-http, sse or stdio.
	Transport          string                        `json:"transport"`
	Resources          Resources                     `json:"resources,omitzero"`
	Volumes            []corev1.Volume               `json:"volumes,omitempty"`
	VolumeMounts       []corev1.VolumeMount          `json:"volumeMounts,omitempty"`
	ImagePullPolicy    corev1.PullPolicy             `json:"imagePullPolicy,omitempty"`
	ImagePullSecrets   []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	ServiceAccountName string                        `json:"serviceAccountName,omitempty"`
	// PodTemplate is the user's overlay, a PodTemplateSpec.
	PodTemplate json.RawMessage `json:"podTemplate,omitempty"`
	// VolumeClaimTemplates are the claims of each pod. They never change.
	VolumeClaimTemplates []corev1.PersistentVolumeClaimTemplate `json:"volumeClaimTemplates,omitempty"`
	// ClaimsWhenDeleted is Retain or Delete: what becomes of these claims with the
	// StatefulSet. Empty where the spec does not say.
	ClaimsWhenDeleted string `json:"claimsWhenDeleted,omitempty"`
	// RestartedAt is RFC 3339 in UTC, to the second.
	RestartedAt string `json:"restartedAt,omitempty"`
	// Bridge stands between proxy and server; nil where the server speaks streamable HTTP.
	Bridge *Bridge `json:"bridge,omitempty"`
	// Rendering is how many of the changes that releases made to the pod template it has (controllers/workload).
	Rendering int32 `json:"rendering,omitempty"`
}

// IsZero leaves the backend out of the encoding where there is none.
func (b Backend) IsZero() bool {
	return b.Image == "" && b.Port == 0 && b.Path == "" && b.Transport == ""
}

// Remote is an MCP server that runs elsewhere.
type Remote struct {
	// URL is where it answers MCP, without user, query and fragment.
	URL string `json:"url"`
	// Transport is streamable-http or sse.
	Transport string `json:"transport"`
	// AllowedNetworks are CIDRs, sorted, that may be connected to besides public addresses.
	AllowedNetworks []string `json:"allowedNetworks,omitempty"`
	// CABundle names the key of a ConfigMap with the certificates of which one has
	// issued that of the server, in CAFile; nil for those of the runner's image.
	CABundle *Key `json:"caBundle,omitempty"`
	// Headers of each request, sorted by name.
	Headers []Header `json:"headers,omitempty"`
}

// Bridged reports whether the proxies have a bridge to the server.
func (r Remote) Bridged() bool { return r.Transport == transportSSE }

// Virtual is how a virtual server offers its members. Who they are is in the object's status, which the runner follows.
type Virtual struct {
	// Title is the name that clients show to people.
	Title string `json:"title,omitempty"`
	// Instructions come before those of the members.
	Instructions string `json:"instructions,omitempty"`
	// ToolNames is Portable or Verbatim.
	ToolNames string `json:"toolNames"`
}

// Header is a header with a value, or with a Secret's key that holds it.
type Header struct {
	// Name is in canonical form (net/http.CanonicalHeaderKey).
	Name   string `json:"name"`
	Value  string `json:"value,omitempty"`
	Secret *Key   `json:"secret,omitempty"`
}

// HeaderFile is the file with the value of the header of this name.
func HeaderFile(name string) string { return "header-" + name }

// Resources of the server's container.
type Resources struct {
	Limits   corev1.ResourceList `json:"limits,omitempty"`
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// IsZero leaves resources out of the encoding where they say nothing.
func (r Resources) IsZero() bool {
	return len(r.Limits) == 0 && len(r.Requests) == 0
}

// Proxy is how the runner serves.
type Proxy struct {
	// Port is the TCP port on which the proxy listens.
	Port int32 `json:"port"`
	// Path of the MCP endpoint at the proxy.
	Path string `json:"path"`
	// PublicURL is where clients outside the cluster reach the proxy.
	PublicURL string `json:"publicURL,omitempty"`
	// Hosts are further names under which they reach it, sorted.
	Hosts []string `json:"hosts,omitempty"`
	// AllowedOrigins are the values of the Origin header that are let in, sorted.
	AllowedOrigins []string `json:"allowedOrigins,omitempty"`
	// TrustForwardedHeaders passes on X-Forwarded-* of a request.
	TrustForwardedHeaders bool `json:"trustForwardedHeaders,omitempty"`
	// ClientHost has the backend see the client's Host; else it sees localhost and its own port.
	ClientHost bool `json:"clientHost,omitempty"`
	// Authentication says whose tokens are accepted; nil asks for none.
	Authentication *Authentication `json:"authentication,omitempty"`
	// Authorization says which calls are allowed; nil allows all.
	Authorization *Authorization `json:"authorization,omitempty"`
	// SessionSecret is the Secret with the keys of session ids, which the proxy mounts; empty where it seals none.
	SessionSecret string `json:"sessionSecret,omitempty"`
	// GraceSeconds is how many seconds the proxy's pods have to end; 0 for DefaultGrace.
	GraceSeconds int32 `json:"graceSeconds,omitempty"`
	// NoAudit keeps the decisions of these two out of the log.
	NoAudit bool `json:"noAudit,omitempty"`
	// Probe is how the proxy asks a server that has answered; nil for the runner's defaults.
	Probe *Probe `json:"probe,omitempty"`
}

// Probe is how a server is asked whether it answers still. What is absent, or 0 but for the period, is the default.
type Probe struct {
	// PeriodSeconds is how often; 0 for never.
	PeriodSeconds *int32 `json:"periodSeconds,omitempty"`
	// TimeoutSeconds is how long an answer may take.
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// FailureThreshold is how many questions in a row may have no answer.
	FailureThreshold int32 `json:"failureThreshold,omitempty"`
}

// Authentication says which tokens let a caller in.
type Authentication struct {
	// Issuer is the claim iss of tokens. Empty means the cluster's own issuer of
	// service account tokens, whose keys the API server tells.
	Issuer string `json:"issuer,omitempty"`
	// KeysURL is where the issuer's keys are; the discovery document tells it where empty.
	KeysURL string `json:"keysURL,omitempty"`
	// Introspection is where the issuer tells what a token is; nil where all are JWTs.
	Introspection *Introspection `json:"introspection,omitempty"`
	// CABundle names the key of a ConfigMap with the certificates of which one has
	// issued that of the issuer, in CAFile; nil for those of the runner's image.
	CABundle *Key `json:"caBundle,omitempty"`
	// Algorithms that may sign a token, sorted.
	Algorithms []string `json:"algorithms"`
	// ClockSkewSeconds is how far the issuer's clock may be from the proxy's.
	ClockSkewSeconds int32 `json:"clockSkewSeconds"`
	// UsernameClaim names the caller.
	UsernameClaim string `json:"usernameClaim"`
	// GroupsClaim holds the caller's groups; none where empty.
	GroupsClaim string `json:"groupsClaim,omitempty"`
	// Usernames that are let in, sorted; all where empty.
	Usernames []string `json:"usernames,omitempty"`
	// Resource is the URL of the MCP endpoint as clients know it.
	Resource string `json:"resource"`
	// Audiences of which a token must have one, sorted.
	Audiences []string `json:"audiences"`
	// Scopes of which a token must have all, sorted.
	Scopes []string `json:"scopes,omitempty"`
}

// Introspection is an endpoint of RFC 7662.
type Introspection struct {
	URL      string `json:"url"`
	ClientID string `json:"clientID"`
	// ClientSecret names the key of a Secret with the client's password, in ClientSecretFile.
	ClientSecret Key `json:"clientSecret"`
}

// Key is a key of a ConfigMap or Secret of the server's namespace.
type Key struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// Authorization are the Cedar policies that every call is held against.
type Authorization struct {
	// Policies, sorted by name.
	Policies []Policy `json:"policies"`
	// Entities is Cedar's JSON of the entities that the policies refer to.
	Entities string `json:"entities,omitempty"`
}

// Policy is the Cedar text of one or more policies under one name.
type Policy struct {
	Name string `json:"name"`
	Text string `json:"text"`
}
