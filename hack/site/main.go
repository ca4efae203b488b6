// Command site judges the built documentation: every link within it leads to a page and a heading of
// it, and every page of docs is there. Links between the sources are judged by test/arch.
//
//	go run ./hack/site -built bin/site -docs docs
package main

import (
	"errors"
	"flag"
	"fmt"
	"html"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// aTarget is what a link or an image of a page asks for. Hugo writes attributes in double quotes.
	aTarget = regexp.MustCompile(`\s(?:href|src)="([^"]*)"`)
	// anID is an element that a link can lead to.
	anID = regexp.MustCompile(`\sid="([^"]*)"`)
)

func main() {
	built := flag.String("built", "bin/site", "the folder of the built site")
	docs := flag.String("docs", "docs", "the folder of the pages that it is built from")
	flag.Parse()
	findings, pages, err := judge(os.DirFS(*built), os.DirFS(*docs))
	if err != nil {
		findings = append(findings, err.Error())
	}
	for _, finding := range findings {
		fmt.Fprintln(os.Stderr, "site: "+finding)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
	fmt.Printf("site: %d pages, every link within them leads somewhere\n", pages)
}

// judge returns what is wrong with a built site, and how many pages it has.
func judge(built, docs fs.FS) ([]string, int, error) {
	files, err := texts(built)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the built site: %w", err)
	}
	var findings []string
	pages := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) == ".html" {
			pages++
			findings = append(findings, broken(name, files)...)
		}
	}
	missing, err := unbuilt(files, docs)
	return append(findings, missing...), pages, err
}

// texts are the files of a site by name.
func texts(built fs.FS) (map[string]string, error) {
	files := map[string]string{}
	err := fs.WalkDir(built, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(built, name)
		files[name] = string(text)
		return err
	})
	return files, err
}

// broken are the links of a page that lead to no file or no heading of the site.
func broken(name string, files map[string]string) []string {
	var findings []string
	for _, match := range aTarget.FindAllStringSubmatch(files[name], -1) {
		link, err := url.Parse(html.UnescapeString(match[1]))
		if err != nil {
			findings = append(findings, fmt.Sprintf("%s: the link %s is no address: %v", name, match[1], err))
			continue
		}
		if link.Scheme != "" || link.Host != "" {
			continue // another site's
		}
		target := name
		if link.Path != "" {
			target = path.Join(path.Dir(name), link.Path)
		}
		text, found := files[target]
		switch {
		case strings.HasPrefix(link.Path, "/"):
			findings = append(findings, fmt.Sprintf("%s: the link %s begins at the root of the host: the site may lie below it",
				name, match[1]))
		case !found:
			findings = append(findings, fmt.Sprintf("%s: the link %s leads to no file of the site", name, match[1]))
		case link.Fragment != "" && !slices.Contains(ids(text), link.Fragment):
			findings = append(findings, fmt.Sprintf("%s: the link %s leads to no heading", name, match[1]))
		}
	}
	return findings
}

// ids are the names that a page's elements have for links.
func ids(page string) []string {
	var found []string
	for _, match := range anID.FindAllStringSubmatch(page, -1) {
		found = append(found, html.UnescapeString(match[1]))
	}
	return found
}

// unbuilt are the pages of docs that the site lacks.
func unbuilt(files map[string]string, docs fs.FS) ([]string, error) {
	var findings []string
	sources := 0
	err := fs.WalkDir(docs, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".md" {
			return err
		}
		sources++
		page := strings.TrimSuffix(name, ".md") + ".html"
		if path.Base(name) == "README.md" {
			page = path.Clean(path.Dir(name)) + ".html"
		}
		if name == "README.md" {
			page = "index.html"
		}
		if _, found := files[page]; !found {
			findings = append(findings, fmt.Sprintf("docs/%s is not in the site as %s: mount it in hack/site/hugo.yaml", name,
				page))
		}
		return nil
	})
	if err == nil && sources == 0 {
		err = errors.New("there is no page in the folder of sources")
	}
	return findings, err
}
