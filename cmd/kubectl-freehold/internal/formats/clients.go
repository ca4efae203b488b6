package formats

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/shlex"

	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/conversion"
	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/launch"
)

// lists are the keys under which clients list servers: Claude Desktop, Claude Code, Cursor and most others; VS Code;
// opencode.
var lists = []string{"mcpServers", "servers", "mcp"}

// listsOf are the lists of a client's file. VS Code's settings have it below mcp, and Claude Code has one for each
// project besides its own.
func listsOf(document map[string]any) (found []map[string]any) {
	for _, key := range lists {
		list, is := document[key].(map[string]any)
		if !is {
			continue
		}
		if below, is := list["servers"].(map[string]any); is && key == "mcp" {
			list = below
		}
		if len(list) > 0 && allEntries(list) {
			found = append(found, list)
		}
	}
	projects, _ := document["projects"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(projects)) {
		if project, is := projects[name].(map[string]any); is {
			found = append(found, listsOf(map[string]any{lists[0]: project[lists[0]]})...)
		}
	}
	return found
}

func allEntries(list map[string]any) bool {
	for _, value := range list {
		entry, is := value.(map[string]any)
		if !is || entry["command"] == nil && entry["url"] == nil && entry["serverUrl"] == nil && entry["httpUrl"] == nil {
			return false
		}
	}
	return true
}

func isClient(document map[string]any) bool { return len(listsOf(document)) > 0 }

// client reads the file of a client.
func client(file string, document map[string]any) (entries []conversion.Entry, err error) {
	for _, list := range listsOf(document) {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			entry := list[name].(map[string]any) //nolint:forcetypeassert // as allEntries found
			entries = append(entries, clientEntry(file, name, entry))
		}
	}
	return entries, nil
}

// known are the fields of an entry that are read, or that say nothing in a cluster.
var known = []string{
	"command", "args", "env", "environment", "url", "serverUrl", "httpUrl", "headers", "type", "transport", "disabled",
	"enabled", "autoApprove", "alwaysAllow", "timeout", "description", "name", "gallery", "trust", "icon", "dev",
}

func clientEntry(file, name string, entry map[string]any) conversion.Entry {
	e := conversion.Entry{Name: name, Format: "a client's file", File: file}
	command, args := words(entry["command"], entry["args"])
	at := cmp.Or(text(entry["url"]), text(entry["serverUrl"]), text(entry["httpUrl"]))
	switch {
	case at != "":
		e.URL, e.Headers = at, texts(entry["headers"])
		e.SSE = entry["type"] == "sse" || entry["transport"] == "sse" ||
			entry["type"] == nil && entry["httpUrl"] == nil && strings.HasSuffix(strings.TrimSuffix(pathOf(at), "/"), "/sse")
	case command != "":
		e.Server = launch.Of(command, args)
	}
	e.Server = e.With(texts(entry["env"])).With(texts(entry["environment"]))
	if e.URL != "" && e.Local == "" && onLaptop(e.URL) {
		e.Local = fmt.Sprintf("%s is on this computer, and a cluster cannot reach it: build an image of the server there",
			hostOf(e.URL))
	}
	if entry["disabled"] == true || entry["enabled"] == false {
		e.Local = "it is switched off in the file"
	}
	e.Notes = append(e.Notes, notes(entry)...)
	if local := laptop(e.Server); local != "" && e.Local == "" {
		e.Local = local
	}
	return e
}

const (
	perPerson    = " is how each person logs in there: connect clients to it directly, or write a key into spec.headers"
	chosen       = " chooses tools: write Cedar policies in spec.authzConfig, or choose in each client"
	noEnvFile    = " is a file of this computer: make a Secret of it, and name that in spec.envFrom"
	noHelper     = " is a program of this computer: write the header into spec.headers, from a Secret"
	noWorkFolder = " is a folder of this computer; left out"
)

// without are the fields of an entry that a server of a cluster has no field for, and what to write instead.
var without = map[string]string{
	"cwd": noWorkFolder, "envFile": noEnvFile, "headersHelper": noHelper, "oauth": perPerson,
	"authProviderType": perPerson, "disabledTools": chosen, "tools": chosen,
}

// notes are about what of an entry was not taken over.
func notes(entry map[string]any) (said []string) {
	for _, field := range slices.Sorted(maps.Keys(entry)) {
		if instead, is := without[field]; is {
			said = append(said, field+instead)
		} else if !slices.Contains(known, field) {
			said = append(said, field+": import does not know this field; left out")
		}
	}
	return said
}

// places are of the laptop, wherever they stand in a command line.
var places = []string{
	"${workspaceFolder}", "${userHome}", "${HOME}", "$HOME", "%APPDATA%", "%USERPROFILE%", "host.docker.internal",
	"127.0.0.1", "localhost", "--browser-extension", "--cdp-endpoint",
}

// laptop is why a server that an image could run needs the laptop all the same, empty if it does not.
func laptop(s launch.Server) string {
	for _, word := range slices.Concat(s.Command, s.Args, slices.Collect(maps.Values(s.Env))) {
		for _, place := range places {
			if strings.Contains(word, place) {
				return fmt.Sprintf("it works on this computer (%s): it has nothing to work on in a cluster", place)
			}
		}
		if home := homeOf(word); home != "" && len(s.Mounts) == 0 {
			return fmt.Sprintf("it works on a folder of this computer (%s): it has nothing to work on in a cluster", home)
		}
	}
	return ""
}

// homes are how a path of somebody's home folder begins.
var homes = regexp.MustCompile(`/Users/|/(?:home)/|C:[\\/]Users|~/`)

// homeOf is how a path of somebody's home folder begins, empty for any other word.
func homeOf(word string) string { return homes.FindString(word) }

func onLaptop(at string) bool {
	host := hostOf(at)
	address, err := netip.ParseAddr(host)
	return host == "localhost" || host == "host.docker.internal" || strings.HasSuffix(host, ".localhost") ||
		err == nil && (address.IsLoopback() || address.IsUnspecified())
}

func hostOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

func pathOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return ""
	}
	return u.Path
}

// words are a command and its arguments: a list, or a text and a list.
func words(command, args any) (string, []string) {
	all := list(command)
	if line := text(command); all == nil && line != "" {
		all = []string{line}
		// Some write the whole line into one text. A path of Windows may have spaces, too.
		if split, err := shlex.Split(line); err == nil && args == nil && !strings.Contains(line, `\`) {
			all = split
		}
	}
	all = append(all, list(args)...)
	if len(all) == 0 {
		return "", nil
	}
	return all[0], all[1:]
}

func list(value any) (words []string) {
	items, _ := value.([]any)
	for _, item := range items {
		words = append(words, scalar(item))
	}
	return words
}

func text(value any) string {
	t, _ := value.(string)
	return t
}

// texts are the values of a map as texts: files write numbers and booleans too.
func texts(value any) map[string]string {
	m, _ := value.(map[string]any)
	found := map[string]string{}
	for key, v := range m {
		if v != nil {
			found[key] = scalar(v)
		}
	}
	return found
}

func scalar(value any) string {
	if number, is := value.(float64); is {
		return strconv.FormatFloat(number, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}
