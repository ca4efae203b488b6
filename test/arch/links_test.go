package arch

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// aLink is a link or a picture on a page, without a title.
	aLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// aHeading is a heading of any level.
	aHeading = regexp.MustCompile(`(?m)^#+ +(.+?) *#*$`)
	// noText is what stands on a page and is not read as text.
	noText = regexp.MustCompile("(?s)```.*?\n *```|`[^`\n]*`")
	// dropped are the characters that an anchor lacks, as GitHub makes them.
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the names by which links reach the headings of a page.
func anchors(page string) []string {
	var found []string
	for _, heading := range aHeading.FindAllStringSubmatch(
		regexp.MustCompile("(?s)```.*?\n *```").ReplaceAllString(page, ""), -1) {
		name := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading[1], "$1")
		name = strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(name), ""), " ", "-")
		times := 0
		for _, before := range found {
			if before == name || strings.HasPrefix(before, name+"-") &&
				regexp.MustCompile(`^-\d+$`).MatchString(strings.TrimPrefix(before, name)) {
				times++
			}
		}
		if times > 0 {
			name = fmt.Sprintf("%s-%d", name, times)
		}
		found = append(found, name)
	}
	return found
}

// broken are the links of a page that lead nowhere in the repository; of gives
// the text of a file, if there is one, and folder says whether a name is one.
func broken(name, page string, of func(string) (string, bool), folder func(string) bool) []string {
	var findings []string
	for _, link := range aLink.FindAllStringSubmatch(noText.ReplaceAllString(page, ""), -1) {
		target, anchor, _ := strings.Cut(link[1], "#")
		if strings.Contains(target, ":") {
			continue // the address of another site
		}
		file := name
		if target != "" {
			file = path.Join(path.Dir(name), target)
		}
		text, exists := of(file)
		if target == "" {
			text, exists = page, true
		}
		switch {
		case !exists && !folder(file):
			findings = append(findings, fmt.Sprintf("%s: the link %s leads to no file: correct it", name, link[1]))
		case anchor != "" && exists && !slices.Contains(anchors(text), anchor):
			findings = append(findings, fmt.Sprintf("%s: the link %s leads to no heading: %s has %s", name, link[1], file,
				strings.Join(anchors(text), ", ")))
		}
	}
	return findings
}

// Whoever follows a link arrives.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	names := files(t)
	of := func(name string) (string, bool) {
		if !slices.Contains(names, name) {
			return "", false
		}
		return read(t, name), true
	}
	folder := func(name string) bool {
		return slices.ContainsFunc(names, func(file string) bool { return strings.HasPrefix(file, name+"/") })
	}
	for _, name := range names {
		if path.Ext(name) == ".md" {
			report(t, broken(name, read(t, name), of, folder))
		}
	}
}

// A page that no other page leads to is not found.
func TestEveryPageIsOnTheMap(t *testing.T) {
	reached, next := map[string]bool{}, []string{"README.md"}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		if reached[name] || path.Ext(name) != ".md" || !slices.Contains(files(t), name) {
			continue
		}
		reached[name] = true
		for _, link := range aLink.FindAllStringSubmatch(noText.ReplaceAllString(read(t, name), ""), -1) {
			target, _, _ := strings.Cut(link[1], "#")
			next = append(next, path.Join(path.Dir(name), target))
		}
	}
	for _, name := range files(t) {
		if strings.HasPrefix(name, "docs/") && path.Ext(name) == ".md" && !reached[name] {
			t.Errorf("no page links to %s: link it from docs/README.md, or from the page that it belongs to", name)
		}
	}
}

func TestBrokenSeesWrongLinks(t *testing.T) {
	pages := map[string]string{"docs/a.md": "# One two\n## `Three` (four)\n## One two\n```\n# none\n```\n"}
	of := func(name string) (string, bool) { text, found := pages[name]; return text, found }
	folder := func(name string) bool { return name == "docs/adr" }
	fine := "[a](a.md) [b](a.md#one-two) [c](a.md#three-four) [d](a.md#one-two-1) [e](adr) [f](https://example.com/x) " +
		"`[g](none.md)` [h](#self)\n## Self\n"
	expect(t, broken("docs/b.md", fine, of, folder))
	expect(t, broken("docs/b.md", "[a](none.md) [b](a.md#none) [c](../docs/a.md)", of, folder), "none.md leads to no file",
		"a.md#none leads to no heading")
}
