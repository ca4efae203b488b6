package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/internal/logs"
	"github.com/freehold-dev/freehold/cmd/runner/internal/era"
	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// settings are what the runner is told: the run config, and the revision that its
// pod was made for, frozen in the environment.
type settings struct {
	run    runconfig.RunConfig
	env    revision.Revision
	envErr error
	// backend has the scheme and host of the backend.
	backend *url.URL
	// dials is the host:port of that by its whole name, empty where a flag or spec.url says it.
	dials string
	// calls and probes are the addresses to listen on.
	calls, probes string
	// remote is the server elsewhere, nil for one with a backend.
	remote *remote.Server
	// files is the directory of the files that the login needs, remoteFiles of those
	// for a server elsewhere.
	files, remoteFiles string
	// sessions is the directory of the keys of session ids.
	sessions string
	// pods has the host:port whose addresses are those of the backend's ready pods, and podPort
	// is the name by which a resolver tells on which port each listens; empty if it cannot.
	pods, podPort string
	// standing is the port of the headless Service, 0 until it was seen.
	standing *atomic.Int32
	// content names what all pods of the backend run, nil until it was seen.
	content *atomic.Pointer[string]
	// resolv is the pod's resolv.conf, empty if it has none.
	resolv string
	// peers is the address on which other proxies call, podIP where they find this one, and
	// here both once it listens. They are for a server elsewhere that needs a bridge.
	peers string
	podIP netip.Addr
	here  netip.AddrPort
	// inside connects to the proxy behind its login and policies: the runner asks the
	// backend on a client's way.
	inside    func(ctx context.Context, network, address string) (net.Conn, error)
	logLevel  slog.Level
	logFormat logs.Format
}

// read reads flags, file and environment. A run config that is missing or
// invalid, or another than the pod was made for, is an error of one line; an
// environment without a revision is not, since calls can be served without one, but
// nothing will be applied. It returns
// flag.ErrHelp, after writing to usage, if help was asked for.
func read(args []string, getenv func(string) (string, bool), usage io.Writer) (settings, error) {
	s := settings{standing: &atomic.Int32{}, content: &atomic.Pointer[string]{}}
	var path, address string
	flags := flag.NewFlagSet("freehold-runner", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error is one line, without the list of flags
	flags.StringVar(&path, "config", filepath.Join(runconfig.MountPath, runconfig.FileName), "path of the run config")
	flags.StringVar(&s.files, "login", runconfig.LoginPath, "directory of the files that the login needs")
	flags.StringVar(&s.sessions, "session-keys", runconfig.SessionPath, "directory of the keys of session ids")
	flags.StringVar(&s.remoteFiles, "remote", runconfig.RemotePath, "directory of the files that a server elsewhere needs")
	flags.StringVar(&address, "backend", "", "scheme and host of the backend; the backend's Service if empty")
	flags.StringVar(&s.calls, "address", "",
		"address on which calls are served; the run config's port on all addresses if empty")
	flags.StringVar(&s.probes, "probe-address", net.JoinHostPort("", strconv.Itoa(runconfig.ProbePort)),
		"address of /livez and /readyz")
	flags.StringVar(&s.peers, "peer-address", net.JoinHostPort("", strconv.Itoa(runconfig.PeerPort)),
		"address on which other proxies of the server call, for a server elsewhere of transport sse")
	flags.TextVar(&s.logLevel, "log-level", slog.LevelInfo, "least level that is logged: debug, info, warn or error")
	flags.TextVar(&s.logFormat, "log-format", logs.JSON, "format of the log: json or text")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(usage)
		flags.PrintDefaults()
	}
	if err != nil {
		return settings{}, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return settings{}, fmt.Errorf("reading the run config: %w", err)
	}
	if s.run, err = runconfig.Decode(data); err != nil {
		return settings{}, fmt.Errorf("reading %s: %w", path, err)
	}
	resolv, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return settings{}, fmt.Errorf("reading the cluster's domain: %w", err)
	}
	s.resolv = string(resolv)
	if s.calls == "" {
		s.calls = net.JoinHostPort("", strconv.Itoa(int(s.run.Proxy.Port)))
	}
	if err = s.target(address); err != nil {
		return settings{}, err
	}
	if err = s.readRemote(getenv); err != nil {
		return settings{}, err
	}
	s.env, s.envErr = mark(getenv)
	if s.envErr == nil {
		// Whoever may write ConfigMaps or pods may have put another in the place of this
		// pod's: without its policies, or with other origins.
		if err := (&backend.Runner{Run: s.run, Env: s.env}).Disagreement(); err != nil {
			return settings{}, fmt.Errorf("reading %s: %w: delete the pod, and the ConfigMap if it mounts one, and both are "+
				"made again", path, err)
		}
	}
	return s, nil
}

// target finds where the backend is called: at the address of the flag, or else at its pods.
func (s *settings) target(address string) (err error) {
	if s.backend, err = backendURL(s.run, address); err != nil {
		return err
	}
	if s.pods = s.backend.Host; address == "" {
		s.pods = net.JoinHostPort(s.whole(workload.HeadlessName(s.run.Server.Name)), strconv.Itoa(int(s.run.Backend.PodPort())))
		s.podPort = podtemplate.PortMCP
		s.dials = net.JoinHostPort(s.whole(workload.BackendName(s.run.Server.Name)), s.backend.Port())
	}
	return nil
}

// stand is told what there is of the backend.
func (s *settings) stand(now backend.Standing) {
	if now == (backend.Standing{}) {
		return // nothing was seen
	}
	s.standing.Store(now.PodPort)
	s.content.Store(&now.Content)
}

// runs names what all pods of the backend run, or is era.Mixed. Where the API server cannot be asked nothing is known
// of replacements.
func (s *settings) runs() string {
	if s.content == nil || s.content.Load() == nil {
		return ""
	}
	return cmp.Or(*s.content.Load(), era.Mixed)
}

// readRemote reads where a server elsewhere is.
func (s *settings) readRemote(getenv func(string) (string, bool)) (err error) {
	if s.run.Remote == nil {
		return nil
	}
	if s.remote, err = remote.New(*s.run.Remote, s.remoteFiles); err != nil {
		return err
	}
	s.backend, s.dials = s.remote.URL, ""
	if !s.run.Remote.Bridged() {
		return nil
	}
	text, _ := getenv(runconfig.EnvPodIP)
	if s.podIP, err = netip.ParseAddr(text); err != nil {
		return fmt.Errorf("%s is %q: it is the address of the pod", runconfig.EnvPodIP, text)
	}
	return nil
}

// revision is the revision of the environment. There is no fallback to the file: an
// old pod on a newer file would else write the newer content as its own.
func mark(getenv func(string) (string, bool)) (revision.Revision, error) {
	generation, ok := getenv(runconfig.EnvGeneration)
	if !ok {
		return revision.Revision{}, fmt.Errorf("%s is not set", runconfig.EnvGeneration)
	}
	hash, ok := getenv(runconfig.EnvHash)
	if !ok {
		return revision.Revision{}, fmt.Errorf("%s is not set", runconfig.EnvHash)
	}
	return revision.Parse(generation, hash)
}

// backendURL is where the backend is: the Service in front of it, unless a flag
// says otherwise. It is the name that backends are told (Host).
func backendURL(run runconfig.RunConfig, given string) (*url.URL, error) {
	if given == "" {
		host := net.JoinHostPort(workload.BackendName(run.Server.Name), strconv.Itoa(runconfig.CallPort))
		return &url.URL{Scheme: "http", Host: host}, nil
	}
	u, err := url.Parse(given)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" {
		return nil, fmt.Errorf("--backend is %q: write scheme and host, for example http://127.0.0.1:8080", given)
	}
	return u, nil
}

// whole is the name of a Service of the server with the final dot: a resolver asks one question for it, and does not go
// on to names in domains of others where it has no address.
func (s settings) whole(service string) string {
	all := domains(s.resolv, s.run.Server.Namespace)
	return service + "." + s.run.Server.Namespace + ".svc." + all[len(all)-1] + "."
}

// endpoint is the URL at which clients in the cluster call the server.
func (s settings) endpoint() string {
	host := fmt.Sprintf("%s.%s.svc:%d", workload.ProxyName(workload.OwnerIn(s.run.Server).Key()), s.run.Server.Namespace,
		s.run.Proxy.Port)
	return (&url.URL{Scheme: "http", Host: host, Path: s.run.Proxy.Path}).String()
}
