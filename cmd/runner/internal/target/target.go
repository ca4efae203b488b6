// Package target makes of the run config of a server what a proxy needs to serve it: where calls go, and what they meet
// before. Nothing of a Target is another one's: not its keys, policies and sessions, nor what is known of its backend.
//
// Read New and Target.Proxy first.
package target

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
	"github.com/freehold-dev/freehold/cmd/runner/internal/virtual"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Config is what the process is told of a server.
type Config struct {
	Run runconfig.Target
	// Backend is scheme and host of the backend; its Service if empty.
	Backend string
	// LoginDir, RemoteDir and KeysDir are the directories of the files that the login needs, of those for a server
	// elsewhere, and of the keys of session ids. StateDir is one that outlasts the process, empty for none.
	LoginDir, RemoteDir, KeysDir, StateDir string
	// Peers is the address on which other proxies call, and PodIP where they find this one: for a server elsewhere that
	// needs a bridge.
	Peers, PodIP string
	// Resolv is the pod's resolv.conf, empty if it has none.
	Resolv string
	// UserAgent is the program, as the API server logs it, and Version its version.
	UserAgent, Version string
}

// Target is one server. Make it with New.
type Target struct {
	config Config
	// service is the Service of the proxies, domains are the cluster's, and public is publicURL, empty without one.
	service string
	domains []string
	public  *url.URL
	// keys are those of the server's sessions.
	keys *session.Keys
	// slots are where the backend is. Upstream is where calls go of a server whose status does not say it; slotted says
	// that there is none, since the status does.
	slots    slots
	upstream *proxy.Upstream
	slotted  bool
	// remote is the server elsewhere, nil for one with a backend.
	remote *remote.Server
	// virtual is the virtual server, nil for any other.
	virtual *virtual.Server
	members *Members
	// podIP is Config.PodIP.
	podIP netip.Addr
}

// New finds where a server is. The error names what is wrong.
func New(config Config) (*Target, error) {
	run := config.Run
	t := &Target{
		config:  config,
		service: workload.ProxyName(workload.OwnerIn(run.Server).Key()),
		domains: domainsOf(config.Resolv, run.Server.Namespace),
		keys:    session.Follow(config.KeysDir, run.Proxy.SessionSecret, run.Server.UID),
	}
	t.slots.known = map[workload.Slot]*slot{workload.Slot1: {}}
	if config.StateDir != "" {
		t.slots.file = filepath.Join(config.StateDir, pointerFile)
	}
	var err error
	if t.public, err = url.Parse(run.Proxy.PublicURL); err != nil {
		t.public = &url.URL{}
	}
	switch {
	case run.Remote != nil:
		if t.remote, err = remote.New(*run.Remote, config.RemoteDir); err != nil {
			return nil, err
		}
		t.upstream = proxy.Elsewhere(t.remote)
		if !run.Remote.Bridged() {
			return t, nil
		}
		if t.podIP, err = netip.ParseAddr(config.PodIP); err != nil {
			return nil, fmt.Errorf("%s is %q: it is the address of the pod", runconfig.EnvPodIP, config.PodIP)
		}
	case run.Virtual != nil:
		t.virtual = t.newVirtual()
		t.upstream = proxy.Inside(t.virtual)
	case config.Backend != "":
		to, err := url.Parse(config.Backend)
		if err != nil || to.Scheme != "http" || to.Host == "" || to.Path != "" {
			return nil, fmt.Errorf("--backend is %q: write http and a host, for example http://127.0.0.1:8080", config.Backend)
		}
		t.upstream = proxy.Fixed(to)
	default:
		t.slotted = true
		clear(t.slots.known)
	}
	return t, nil
}

// ProxySums are by what pods with a bridge may know the server's proxies, or why those have nothing to show.
func (t *Target) ProxySums() ([]string, error) { return t.keys.Sums() }

// Run is the server's part of the run config.
func (t *Target) Run() runconfig.Target { return t.config.Run }

// Proxy is what a proxy needs to serve the server, and the login, nil where everybody may call. It fails for policies
// that cannot be read.
func (t *Target) Proxy(log *slog.Logger) (proxy.Config, *oidc.Login, error) {
	login, err := t.login(log)
	if err != nil {
		return proxy.Config{}, nil, err
	}
	authorize, err := t.authorize(log)
	if err != nil {
		return proxy.Config{}, nil, err
	}
	settings := t.config.Run.Proxy
	config := proxy.Config{
		ServerUID:             t.config.Run.Server.UID,
		Own:                   t.wantedContent(),
		Authorize:             authorize,
		Translate:             t.translate(login != nil, log),
		Public:                *t.public,
		Upstream:              t.upstream,
		AllowedOrigins:        settings.AllowedOrigins,
		Hosts:                 t.hosts(),
		TrustForwardedHeaders: settings.TrustForwardedHeaders,
		Refusal:               refusal(t.config.Run.NotEnforced),
		Keys:                  t.keys,
		Log:                   log,
	}
	if t.slotted {
		config.Refresh = t.refresh
	} else {
		t.upstream.Content = proxy.Content{
			Hash: config.Own, Bridged: t.config.Run.Bridged(), Shown: t.config.Run.Backend.Bridge != nil,
		}
		if _, port, err := net.SplitHostPort(t.upstream.Host()); err == nil && t.remote == nil && t.virtual == nil {
			t.upstream.ToldHost = t.toldHost(port)
		}
	}
	if login != nil {
		config.Authenticate = login.Guard
	}
	return config, login, nil
}

// wantedContent is the hash of what the backend's pods are to run, or of where the server elsewhere is.
func (t *Target) wantedContent() string {
	if t.virtual != nil {
		return "virtual" // its sessions are no backend's
	}
	if server := t.config.Run.Remote; server != nil {
		at := sha256.Sum256([]byte(server.Transport + " " + server.URL))
		return hex.EncodeToString(at[:])
	}
	return t.config.Run.Rendering.Backend
}

// refusal is what callers read while the spec asks for something that this
// version does not do, empty while it does not.
func refusal(notEnforced []string) string {
	switch len(notEnforced) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("NotEnforced: %s is set, and this version does not enforce it", notEnforced[0])
	default:
		return fmt.Sprintf("NotEnforced: %s are set, and this version does not enforce them", strings.Join(notEnforced, ", "))
	}
}
