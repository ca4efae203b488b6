package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The platforms of the images, and of what people run (config/krew).
var (
	images = []string{"linux/amd64", "linux/arm64"}
	desks  = append([]string{"darwin/amd64", "darwin/arm64", "windows/amd64"}, images...)
)

// commands are those that are given away, and for which platforms.
var commands = []struct {
	name      string
	platforms []string
}{{"operator", images}, {"runner", images}, {"kubectl-freehold", desks}}

// module is one that is linked into at least one binary.
type module struct {
	path, version string
	// in are the commands that it is linked into.
	in []string
	// texts are its licences and notices, those of its root first.
	texts []text
	// licences are their SPDX identifiers.
	licences []string
}

// text is one file, named relative to the module.
type text struct{ name, content string }

// isText are the names under which modules keep licences and notices.
var isText = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice|patents)([.-].*)?$`)

// isSource tells license.go from LICENSE.md, and from LICENSE.docs, which is of a module's documents alone.
var isSource = regexp.MustCompile(`\.(go|s|json|html|sh|docs)$`)

// isNotice is what is passed on along with a licence, and is none: attributions, and grants of patents, which only add
// to what the licence beside them grants.
var isNotice = regexp.MustCompile(`(?i)^(notice|copyright|patents)`)

func (t text) isNotice() bool { return isNotice.MatchString(filepath.Base(t.name)) }

// listing is what `go list -json` says of a package.
type listing struct {
	Dir      string
	Standard bool
	Module   *moduleListing
}

type moduleListing struct {
	Path, Version, Dir string
	Main               bool
	Replace            *moduleListing
}

// linked are the modules of all commands on all platforms, by path.
func linked(root string) ([]*module, error) {
	found := map[string]*module{}
	for _, command := range commands {
		for _, platform := range command.platforms {
			packages, err := list(root, "./cmd/"+command.name, platform)
			if err != nil {
				return nil, err
			}
			if err := collect(found, command.name, packages); err != nil {
				return nil, err
			}
		}
	}
	return ordered(found)
}

// ordered are modules by path, each with its texts by depth.
func ordered(found map[string]*module) ([]*module, error) {
	modules := slices.SortedFunc(maps.Values(found), func(a, b *module) int { return cmp.Compare(a.path, b.path) })
	for _, m := range modules {
		if !slices.ContainsFunc(m.texts, func(t text) bool { return !t.isNotice() }) {
			return nil, fmt.Errorf("%s %s has no licence", m.path, m.version)
		}
		slices.SortFunc(m.texts, func(a, b text) int {
			return cmp.Or(cmp.Compare(strings.Count(a.name, "/"), strings.Count(b.name, "/")), cmp.Compare(a.name, b.name))
		})
	}
	return modules, nil
}

// list asks Go what a command is linked from.
func list(root, command, platform string) ([]listing, error) {
	goos, goarch, _ := strings.Cut(platform, "/")
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,Standard,Module", "-tags", "fieldsv1string", command)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing what %s is linked from: %w", command, err)
	}
	var packages []listing
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listing
		//nolint:musttag // the names are go list's own
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading what go list says: %w", err)
		}
		packages = append(packages, p)
	}
}

// collect adds the modules of a command's packages, with the texts that stand beside and above each package.
func collect(found map[string]*module, command string, packages []listing) error {
	for _, p := range packages {
		if p.Standard || p.Module.Main {
			continue
		}
		if p.Module.Replace != nil {
			return fmt.Errorf("%s is replaced by %s, whose licence nobody looked at", p.Module.Path, p.Module.Replace.Path)
		}
		m := found[p.Module.Path]
		if m == nil {
			m = &module{path: p.Module.Path, version: p.Module.Version}
			found[m.path] = m
		}
		if !slices.Contains(m.in, command) {
			m.in = append(m.in, command)
		}
		for dir := p.Dir; ; dir = filepath.Dir(dir) {
			if err := m.read(p.Module.Dir, dir); err != nil {
				return err
			}
			if dir == p.Module.Dir {
				break
			}
		}
	}
	return nil
}

// read adds the texts of one folder.
func (m *module) read(moduleDir, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() || !isText.MatchString(entry.Name()) || isSource.MatchString(entry.Name()) {
			continue
		}
		name, err := filepath.Rel(moduleDir, filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		if slices.ContainsFunc(m.texts, func(t text) bool { return t.name == name }) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		m.texts = append(m.texts, text{name, string(content)})
	}
	return nil
}
