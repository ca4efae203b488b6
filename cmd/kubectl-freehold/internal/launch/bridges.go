package launch

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/shlex"
)

// isBridge reports whether a program is a bridge between transports: the cluster has Freehold for that.
func isBridge(program string) bool {
	return slices.Contains([]string{"mcp-remote", "supergateway", "mcp-proxy"}, program)
}

// bridged is what is behind a bridge: another command, or a server elsewhere.
func bridged(bridge string, args []string, left int) Server {
	valued := map[string]bool{
		"--header": true, "--transport": true, "--host": true, "--port": true, "--stdio": true, "--sse": true, "-H": true,
		"--streamableHttp": true, "--outputTransport": true, "--ssePath": true, "--messagePath": true, "--baseUrl": true,
		"--logLevel": true, "--oauth2Bearer": true, "--sse-port": true, "--sse-host": true, "-e": true, "--env": true,
		"--allow-origin": true, "--static-oauth-client-metadata": true, "--static-oauth-client-info": true,
	}
	args, variables := pairs(bridge, args)
	flags, first, rest := split(args, valued)
	switch {
	case len(flags["--stdio"]) > 0:
		words, err := shlex.Split(flags["--stdio"][0])
		if err != nil {
			return Server{Local: "the command behind " + bridge + " has a quotation mark without its other one"}
		}
		return of(words, left-1).With(variables)
	case len(flags["--sse"]) > 0 && flags["--sse"][0] != "":
		return elsewhere(flags["--sse"][0], true, flags, nil)
	case len(flags["--streamableHttp"]) > 0 && flags["--streamableHttp"][0] != "":
		return elsewhere(flags["--streamableHttp"][0], false, flags, nil)
	case isURL(first):
		// mcp-remote has its flags behind the URL, and may have a port before them.
		more, word, rest := split(rest, valued)
		for word != "" {
			var behind map[string][]string
			behind, word, rest = split(rest, valued)
			maps.Copy(more, behind)
		}
		sse := bridge == "mcp-proxy" && !slices.Contains(flags["--transport"], "streamablehttp") ||
			slices.Contains(more["--transport"], "sse-only")
		return elsewhere(first, sse, flags, more)
	case first != "":
		return of(append([]string{first}, rest...), left-1).With(variables)
	}
	return Server{Local: bridge + " is told neither a command nor a URL"}
}

// pairs has the flags of mcp-proxy that take a name and a value as those of the others, which take one word.
func pairs(bridge string, args []string) (words []string, variables map[string]string) {
	variables = map[string]string{}
	for i := 0; i < len(args); i++ {
		switch flag := args[i]; {
		case bridge == "mcp-proxy" && i+2 < len(args) && slices.Contains([]string{"-H", "--headers"}, flag):
			words = append(words, "--header", args[i+1]+":"+args[i+2])
			i += 2
		case bridge == "mcp-proxy" && i+2 < len(args) && slices.Contains([]string{"-e", "--env"}, flag):
			variables[args[i+1]] = args[i+2]
			i += 2
		default:
			words = append(words, flag)
		}
	}
	return words, variables
}

// elsewhere is a server at a URL.
func elsewhere(url string, sse bool, flags ...map[string][]string) Server {
	s := Server{URL: url, SSE: sse, Headers: map[string]string{}}
	for _, given := range flags {
		for _, header := range slices.Concat(given["--header"], given["-H"], given["--headers"]) {
			if name, value, found := strings.Cut(header, ":"); found {
				s.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
			}
		}
		for _, token := range given["--oauth2Bearer"] {
			s.Headers["Authorization"] = "Bearer " + token
		}
	}
	return s
}

func isURL(word string) bool {
	return strings.HasPrefix(word, "http://") || strings.HasPrefix(word, "https://")
}
