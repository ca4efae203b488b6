package proxy

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// Upstream is content of a backend, or a server elsewhere, and the lane there: it is replaced as a whole. Make it with
// Service, Fixed, Elsewhere, Peers or Inside, and other content in the same slot with Holds.
type Upstream struct {
	Content
	*lane
	// use is what clients have of this content.
	use *use
}

// Content is what an upstream holds.
type Content struct {
	// Hash is that of what the backend's pods are to run, or of where the server elsewhere is.
	Hash string
	// Bridged has the upstream told who has a share: it is a bridge, and bounds what one caller has of it.
	Bridged bool
	// Shown has the upstream shown what the server's proxies alone have: all its pods are bridges of ours, and none is the
	// user's own.
	Shown bool
	// Slot is the place of the backend, 0 where there is one alone, and Generation the workload generation under which the
	// content was placed there.
	Slot       int32
	Generation int64
	// Path is that of the MCP endpoint there, empty where it is the target's.
	Path string
	// ToldHost is the Host that the backend sees, empty for the client's.
	ToldHost string
	// Alone says that all pods of the upstream are of this content.
	Alone bool
}

// lane is the way to a slot, or to a server elsewhere, whatever content is there. It carries requests on connections
// of its own.
type lane struct {
	url    *url.URL                    // scheme and host:port, as the upstream is told (Host)
	pods   *pods                       // that keep sessions; nil for a server elsewhere, which keeps them itself
	remote *remote.Server              // nil unless the server is elsewhere
	peers  func() (*tls.Config, error) // nil unless the pods are proxies of the same server
	inside http.RoundTripper           // nil unless the server is in the process

	dialer    *remote.Dialer
	life      time.Duration // connectionLife, or remoteLife
	handshake time.Duration // peerHandshake
	standard  bool          // StandardClient

	mu      sync.Mutex
	current connections
	since   time.Time

	// answered is whether it has answered since the start, and unreachable whether the last request found nobody.
	answered, unreachable atomic.Bool

	// stages are those of a call behind pick, nil before they are made; translator is among them, nil for none, and holds
	// is the content that they find.
	stages     http.Handler
	translator Translator
	holds      atomic.Pointer[Upstream]
}

// Holds is other content on the lane of that which was there.
func (u *Upstream) Holds(content Content) *Upstream { return &Upstream{Content: content, lane: u.lane} }

// Service is a backend behind a Service, whose host:port backends are told, and whole is the same for a resolver. Pods
// is the host:port whose addresses are those of the pods that are ready. A pod may listen on another port than that, as
// while it changes: the resolver knows it by an SRV record of the name podPort, and openPort is the port of pods of the
// content that the API server has, 0 if it is not known. Until the Service has accepted a
// connection, the proxy dials a pod where it does not.
func Service(service, whole, pods, podPort string, openPort func() int32) *Upstream {
	u := newUpstream(&url.URL{Scheme: "http", Host: service}, newPods(pods), dialing(service, whole))
	u.pods.portName, u.pods.openPort = podPort, openPort
	u.dialer.Fallback = u.dialPod
	return u
}

// Fixed is a backend at a URL, whose host's addresses are those of its pods.
func Fixed(to *url.URL) *Upstream { return newUpstream(to, newPods(to.Host), dialing(to.Host, "")) }

// Elsewhere is a server that runs elsewhere.
func Elsewhere(to *remote.Server) *Upstream {
	u := newUpstream(to.URL, nil, to.Dialer())
	u.remote, u.life = to, remoteLife
	return u
}

// Peers is the proxies' own sessions with a server elsewhere: self is where this one serves its own, with the TLS of
// keys. The other proxies of the server have such an address too, of the same port.
func Peers(self netip.AddrPort, keys *session.Keys) *Upstream {
	u := newUpstream(&url.URL{Scheme: "http", Host: self.String()}, onlyPod(self), dialing(self.String(), ""))
	u.peers, u.life = keys.Peers, remoteLife
	return u
}

func newUpstream(to *url.URL, pods *pods, dialer *remote.Dialer) *Upstream {
	return &Upstream{lane: &lane{
		url: to, pods: pods, dialer: dialer, life: connectionLife, handshake: peerHandshake,
	}}
}

// dialing connects to a host:port by its whole name.
func dialing(host, whole string) *remote.Dialer {
	return remote.NewDialer(net.Dialer{Timeout: dialTime}, host, whole)
}

// Host is the host:port that the upstream is told.
func (u *Upstream) Host() string { return u.url.Host }

// session is one that is there, and begins now.
func (u *Upstream) session(pod netip.AddrPort, id string) session.Session {
	return session.Session{Pod: pod, ID: id, Issued: u.now(), Content: session.Content(u.Hash)}
}

// reachable reports whether it has answered, and the last request found it.
func (u *Upstream) reachable() bool { return u.answered.Load() && !u.unreachable.Load() }

// mayBeClosed reports whether a bridge of ours may be there, which takes no stranger: also among pods of content that
// replaces other content.
func (u *Upstream) mayBeClosed() bool { return u.Shown || u.Slot != 0 && !u.Alone }

func (u *Upstream) now() time.Time {
	if u.pods != nil {
		return u.pods.now()
	}
	return time.Now()
}
