// Package launch takes apart the command line by which a client on a laptop starts an MCP server: which program that is
// behind package runners, docker and bridges, and by which image a cluster can run it. It is pure.
//
// Read Of first. docker.go reads docker's flags, bridges.go unwraps bridges.
package launch

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Server is what a command line starts.
type Server struct {
	// Image runs it, and Command and Args are the container's. Command is empty where the image's own entrypoint runs.
	Image         string
	Command, Args []string
	// Env are variables that the command line itself sets.
	Env map[string]string
	// User is what the container runs as, 0 for what the image says.
	User int64
	// Runner says that the image is one of a package runner, and chosen here: it says nothing of the server.
	Runner bool
	// Mounts are directories and volumes.
	Mounts []Mount
	// WorkingDir is empty for the image's.
	WorkingDir string

	// URL is where the server is, and Headers what it is told, where the command line only connects to one elsewhere.
	URL     string
	Headers map[string]string
	// SSE says that the server elsewhere speaks the older transport.
	SSE bool

	// Notes are sentences about what was not taken over.
	Notes []string
	// Local is why nothing in a cluster can run it, empty if something can.
	Local string
}

// Mount is a directory of a container.
type Mount struct {
	// Source is a path of the laptop, or the name of a volume.
	Source, Target string
	ReadOnly       bool
}

// Images in which package runners are.
const (
	nodeImage = "docker.io/library/node:24-alpine"
	uvImage   = "ghcr.io/astral-sh/uv:debian-slim"
	// uvGitImage has git, too.
	uvGitImage = "ghcr.io/astral-sh/uv:debian"
	// user is the one of these images that is not root.
	user = 1000
)

// depth is how many wrappers are taken off.
const depth = 4

// Of is what a command line starts.
func Of(command string, args []string) Server { return of(append([]string{command}, args...), depth) }

func of(words []string, left int) Server {
	if len(words) == 0 || words[0] == "" || left == 0 {
		return Server{Local: "there is no command that import can follow"}
	}
	if assignment.MatchString(words[0]) {
		return env(words, left)
	}
	program, args := words[0], words[1:]
	switch nameOf(program) {
	case "cmd":
		if len(args) > 0 && strings.EqualFold(args[0], "/c") {
			return of(args[1:], left-1)
		}
	case "env":
		return env(args, left)
	case "npx", "bunx", "pnpx":
		return npm("npx", args, left)
	case "npm", "pnpm", "yarn", "bun":
		if len(args) > 0 && slices.Contains([]string{"exec", "x", "dlx"}, args[0]) {
			return npm("npx", args[1:], left)
		}
	case "uvx", "pipx":
		return python(slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "run" && args[0] == a }), left)
	case "uv":
		return uv(args, left)
	case "docker", "podman", "nerdctl":
		return docker(args)
	case "mcp-remote", "supergateway", "mcp-proxy":
		return bridged(nameOf(program), args, left)
	}
	return onComputer(Shown(strings.Fields(program + " ?")[0]) + " is a program")
}

// onComputer is what only this computer can run.
func onComputer(what string) Server {
	return Server{Local: what + " on this computer: build an image with it, and name that in spec.image"}
}

// Shown is a program or a file without the folders that it is in.
func Shown(program string) string { return path.Base(strings.ReplaceAll(program, `\`, "/")) }

// nameOf is a program without path and extension.
func nameOf(program string) string {
	base := strings.ToLower(Shown(program))
	for _, extension := range []string{".exe", ".cmd", ".ps1"} {
		base = strings.TrimSuffix(base, extension)
	}
	return base
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// env takes variables off that stand before the command.
func env(args []string, left int) Server {
	set := map[string]string{}
	for len(args) > 0 && assignment.MatchString(args[0]) {
		name, value, _ := strings.Cut(args[0], "=")
		set[name], args = value, args[1:]
	}
	s := of(args, left-1)
	return s.With(set)
}

// With has variables where the command line does not set them.
func (s Server) With(variables map[string]string) Server {
	for name, value := range variables {
		if s.Env == nil {
			s.Env = map[string]string{}
		}
		if stated, is := s.Env[name]; !is || stated == taken(name) {
			s.Env[name] = value
		}
	}
	return s
}

// taken is the value of a variable that the command line takes from where it runs.
func taken(name string) string { return "${" + name + "}" }

// npm is a package of npm's registry.
func npm(runner string, args []string, left int) Server {
	flags, pkg, rest := split(args,
		map[string]bool{"-p": true, "--package": true, "--registry": true, "-c": true, "--call": true})
	if pkg == "" {
		return Server{Local: "npx is told no package"}
	}
	fetched := slices.Concat(flags["-p"], flags["--package"])
	if bare := unversioned(pkg); isBridge(bare) && (len(fetched) == 0 || unversioned(fetched[0]) == bare) {
		return bridged(bare, rest, left)
	}
	s := Server{Image: nodeImage, Command: []string{runner}, Args: args, User: user, Runner: true}
	if !slices.Contains(args, "-y") && !slices.Contains(args, "--yes") {
		s.Args = append([]string{"-y"}, args...) // nobody can be asked
	}
	if len(fetched) == 0 {
		fetched = []string{pkg}
	}
	for _, one := range fetched {
		if isPath(one) {
			return onComputer(Shown(one) + " is a folder")
		}
		s.Notes = append(s.Notes, downloads(one, "@", "npm"))
	}
	return s
}

// python is a package of the Python Package Index.
func python(args []string, left int) Server {
	flags, pkg, rest := split(args, map[string]bool{
		"--from": true, "--with": true, "--python": true, "-p": true, "--index-url": true, "--index": true, "--spec": true,
		"--extra-index-url": true, "--default-index": true, "--refresh-package": true, "--env-file": true,
	})
	if pkg == "" {
		return Server{Local: "uvx is told no package"}
	}
	fetched := pkg
	if from := slices.Concat(flags["--from"], flags["--spec"]); len(from) > 0 {
		fetched = from[0]
	}
	if bare := unversioned(pkg); isBridge(bare) && fetched == pkg {
		return bridged(bare, rest, left)
	}
	if isPath(fetched) {
		return onComputer(Shown(fetched) + " is a folder")
	}
	s := Server{Image: uvImage, Command: []string{"uvx"}, Args: args, User: user, Runner: true}
	s.Notes = append(s.Notes, downloads(fetched, "==", "pypi"))
	if strings.HasPrefix(fetched, "git+") {
		s.Image = uvGitImage
	}
	return s
}

// uv is `uv tool run` and `uv run --with PACKAGE PROGRAM`. A project is a folder of the laptop.
func uv(args []string, left int) Server {
	switch {
	case len(args) > 1 && args[0] == "tool" && args[1] == "run":
		return python(args[2:], left)
	case slices.ContainsFunc(args, func(a string) bool {
		return strings.HasPrefix(a, "--directory") || strings.HasPrefix(a, "--project")
	}):
	case len(args) > 1 && args[0] == "run":
		flags, program, _ := split(args[1:], map[string]bool{"--with": true, "--python": true, "-p": true, "--from": true})
		if with := flags["--with"]; len(with) > 0 && !isPath(program) && !strings.HasSuffix(program, ".py") {
			s := Server{Image: uvImage, Command: []string{"uv"}, Args: args, User: user, Runner: true}
			for _, one := range with {
				s.Notes = append(s.Notes, downloads(one, "==", "pypi"))
			}
			return s
		}
	}
	return onComputer("uv runs a project")
}

// downloads says what happens at each start.
func downloads(pkg, separator, from string) string {
	said := fmt.Sprintf("the pod downloads %s from %s at each start; an image with the package in it starts faster, and "+
		"needs no network", pkg, from)
	if strings.Contains(pkg, "://") {
		return said
	}
	if at := strings.LastIndex(pkg, separator); at <= 0 || strings.HasSuffix(pkg, "@latest") {
		said += fmt.Sprintf("; write the version (%s%sVERSION), since the newest one runs otherwise",
			unversioned(pkg), separator)
	}
	return said
}

// unversioned is a package without version and extras.
func unversioned(pkg string) string {
	if at := strings.LastIndex(pkg, "@"); at > 0 {
		pkg = pkg[:at]
	}
	pkg, _, _ = strings.Cut(pkg, "==")
	pkg, _, _ = strings.Cut(pkg, "[")
	return pkg
}

// isPath reports whether a word is a place on the laptop.
func isPath(word string) bool {
	return strings.HasPrefix(word, ".") || strings.HasPrefix(word, "/") || strings.HasPrefix(word, "~") ||
		strings.HasPrefix(word, "file:") || len(word) > 2 && word[1] == ':' && (word[2] == '\\' || word[2] == '/') ||
		strings.Contains(word, "${workspaceFolder}") || strings.Contains(word, "${userHome}") ||
		strings.Contains(word, "${HOME}")
}

// split divides words into flags, the first word that is none, and what follows it. Valued are flags that take the next
// word.
func split(words []string, valued map[string]bool) (flags map[string][]string, first string, rest []string) {
	flags = map[string][]string{}
	for i := 0; i < len(words); i++ {
		name, value, joined := strings.Cut(words[i], "=")
		switch {
		case words[i] == "--":
		case !strings.HasPrefix(name, "-"):
			return flags, words[i], words[i+1:]
		case joined:
			flags[name] = append(flags[name], value)
		case valued[name] && i+1 < len(words):
			i++
			flags[name] = append(flags[name], words[i])
		default:
			flags[name] = append(flags[name], "")
		}
	}
	return flags, "", nil
}
