package launch

import (
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// docker is `docker run`, with the flags of docker's own reference
// (https://docs.docker.com/reference/cli/docker/container/run/).
func docker(args []string) Server {
	_, verb, rest := split(args,
		map[string]bool{"--context": true, "-H": true, "--host": true, "--config": true, "-l": true})
	if verb == "container" && len(rest) > 0 {
		verb, rest = rest[0], rest[1:]
	}
	if verb == "mcp" {
		return Server{Local: "docker's MCP gateway runs servers of its own catalog: import the entries of that"}
	}
	if verb != "run" || len(rest) == 0 {
		return Server{Local: "import follows docker run alone: build an image, and name that in spec.image"}
	}
	flags := dockerFlags()
	said := struct {
		env, files, volumes, mounts, networks *[]string
		user, entrypoint, workdir             *string
	}{
		env: flags.StringArrayP("env", "e", nil, ""), files: flags.StringArray("env-file", nil, ""),
		volumes: flags.StringArrayP("volume", "v", nil, ""), mounts: flags.StringArray("mount", nil, ""),
		networks: flags.StringArray("network", nil, ""), user: flags.StringP("user", "u", "", ""),
		entrypoint: flags.String("entrypoint", "", ""), workdir: flags.StringP("workdir", "w", "", ""),
	}
	if err := flags.Parse(rest); err != nil || flags.Arg(0) == "" {
		return Server{Local: "docker run cannot be read: it names no image"}
	}
	s := Server{Image: flags.Arg(0), Args: flags.Args()[1:], WorkingDir: *said.workdir, Env: map[string]string{}}
	if *said.entrypoint != "" {
		s.Command = []string{*said.entrypoint}
	}
	for _, variable := range *said.env {
		if name, value, given := strings.Cut(variable, "="); given {
			s.Env[name] = value
		} else {
			s.Env[name] = taken(name)
		}
	}
	s.dockerUser(*said.user)
	for _, volume := range *said.volumes {
		s.volume(volume)
	}
	for _, mount := range *said.mounts {
		s.mount(mount)
	}
	for _, file := range *said.files {
		s.Notes = append(s.Notes, "--env-file "+Shown(file)+": make a Secret of it (kubectl create secret generic NAME "+
			"--from-env-file=FILE), and name that in spec.envFrom")
	}
	for _, network := range *said.networks {
		s.Notes = append(s.Notes, "--network "+network+": what it reached by name has to be a Service of the cluster")
	}
	return s
}

// dockerFlags are those that say nothing in a cluster, or what its pods have by themselves.
func dockerFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("docker run", pflag.ContinueOnError)
	flags.SetInterspersed(false)
	flags.SetOutput(io.Discard)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	for _, name := range []string{"rm", "init", "privileged", "read-only", "no-healthcheck", "publish-all", "quiet"} {
		flags.Bool(name, false, "")
	}
	flags.BoolP("interactive", "i", false, "")
	flags.BoolP("tty", "t", false, "")
	flags.BoolP("detach", "d", false, "")
	flags.StringArrayP("publish", "p", nil, "")
	flags.StringArrayP("label", "l", nil, "")
	flags.StringArrayP("memory", "m", nil, "")
	flags.StringArrayP("hostname", "h", nil, "")
	for _, name := range []string{
		"name", "pull", "platform", "cpus", "add-host", "restart", "log-driver", "cap-add", "cap-drop",
		"security-opt", "tmpfs", "gpus", "ipc", "shm-size", "ulimit", "dns", "stop-timeout", "net", "cidfile",
		"device", "expose", "group-add", "link", "log-opt", "network-alias", "pid", "pids-limit", "runtime", "stop-signal",
		"userns",
	} {
		flags.StringArray(name, nil, "")
	}
	return flags
}

func (s *Server) dockerUser(stated string) {
	name, _, _ := strings.Cut(stated, ":")
	if number, err := strconv.ParseInt(name, 10, 64); err == nil {
		s.User = number
	} else if name != "" {
		s.Notes = append(s.Notes, "--user "+stated+": write its number into "+
			"spec.podTemplate.spec.securityContext.runAsUser")
	}
}

// volume reads -v SOURCE:TARGET[:OPTIONS], where SOURCE may begin with a drive of Windows.
func (s *Server) volume(stated string) {
	drive := ""
	if len(stated) > 2 && stated[1] == ':' && strings.ContainsAny(stated[2:3], `/\`) && strings.Contains(stated[2:], ":") {
		drive, stated = stated[:2], stated[2:]
	}
	source, rest, two := strings.Cut(stated, ":")
	if !two {
		s.Mounts = append(s.Mounts, Mount{Target: source})
		return
	}
	target, options, _ := strings.Cut(rest, ":")
	s.Mounts = append(s.Mounts, Mount{
		Source: drive + source, Target: target, ReadOnly: strings.Contains(","+options+",", ",ro,"),
	})
}

// mount reads --mount type=bind,source=…,target=….
func (s *Server) mount(stated string) {
	var m Mount
	for _, part := range strings.Split(stated, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "source", "src":
			m.Source = value
		case "target", "dst", "destination":
			m.Target = value
		case "readonly", "ro":
			m.ReadOnly = value != "false"
		}
	}
	if m.Target != "" {
		s.Mounts = append(s.Mounts, m)
	}
}
