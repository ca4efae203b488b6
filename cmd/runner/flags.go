package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/internal/logs"
	"github.com/freehold-dev/freehold/cmd/runner/internal/target"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// settings are what the runner is told: the run config, and the revision that its
// pod was made for, frozen in the environment.
type settings struct {
	targets map[string]*target.Target // by the path at which each is served
	runner  *backend.Runner
	// calls and probes are the addresses to listen on.
	calls, probes string
	logLevel      slog.Level
	logFormat     logs.Format
}

// read reads flags, file and environment. A run config that is missing or
// invalid, or another than the pod was made for, is an error of one line; an
// environment without a revision is not, since calls can be served without one, but
// nothing will be applied. It returns
// flag.ErrHelp, after writing to usage, if help was asked for.
func read(args []string, getenv func(string) (string, bool), usage io.Writer) (settings, error) {
	s, config := settings{targets: map[string]*target.Target{}}, target.Config{UserAgent: userAgent(), Version: version}
	var path string
	flags := s.flags(&config, &path)
	flags.SetOutput(io.Discard) // the error is one line, without the list of flags
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
	run, err := runconfig.Decode(data)
	if err != nil {
		return settings{}, fmt.Errorf("reading %s: %w", path, err)
	}
	resolv, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return settings{}, fmt.Errorf("reading the cluster's domain: %w", err)
	}
	config.Resolv = string(resolv)
	config.PodIP, _ = getenv(runconfig.EnvPodIP)
	if s.calls == "" {
		s.calls = net.JoinHostPort("", strconv.Itoa(int(run.Proxy.Port)))
	}
	for path, each := range run.Targets() {
		config.Run = each
		if s.targets[path], err = target.New(config); err != nil {
			return settings{}, err
		}
	}
	s.runner = &backend.Runner{Run: run}
	if s.runner.Env, s.runner.EnvErr = mark(getenv); s.runner.EnvErr == nil {
		// Whoever may write ConfigMaps or pods may have put another in the place of this
		// pod's: without its policies, or with other origins.
		if err := s.runner.Disagreement(); err != nil {
			return settings{}, fmt.Errorf("reading %s: %w: delete the pod, and the ConfigMap if it mounts one, and both are "+
				"made again", path, err)
		}
	}
	return s, nil
}

// flags are those of the program.
func (s *settings) flags(config *target.Config, path *string) *flag.FlagSet {
	flags := flag.NewFlagSet("freehold-runner", flag.ContinueOnError)
	flags.StringVar(path, "config", filepath.Join(runconfig.MountPath, runconfig.FileName), "path of the run config")
	flags.StringVar(&config.LoginDir, "login", runconfig.LoginPath, "directory of the files that the login needs")
	flags.StringVar(&config.KeysDir, "session-keys", runconfig.SessionPath, "directory of the keys of session ids")
	flags.StringVar(&config.RemoteDir, "remote", runconfig.RemotePath,
		"directory of the files that a server elsewhere needs")
	flags.StringVar(&config.Backend, "backend", "", "http and host of the backend; the backend's Service if empty")
	flags.StringVar(&config.StateDir, "state", runconfig.StatePath,
		"directory that outlasts the process, where it keeps to which content calls go")
	flags.StringVar(&s.calls, "address", "",
		"address on which calls are served; the run config's port on all addresses if empty")
	flags.StringVar(&s.probes, "probe-address", net.JoinHostPort("", strconv.Itoa(runconfig.ProbePort)),
		"address of /livez and /readyz")
	flags.StringVar(&config.Peers, "peer-address", net.JoinHostPort("", strconv.Itoa(runconfig.PeerPort)),
		"address on which other proxies of the server call, for a server elsewhere of transport sse")
	flags.TextVar(&s.logLevel, "log-level", slog.LevelInfo, "least level that is logged: debug, info, warn or error")
	flags.TextVar(&s.logFormat, "log-format", logs.JSON, "format of the log: json or text")
	return flags
}

// mark is the revision of the environment. There is no fallback to the file: an
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
