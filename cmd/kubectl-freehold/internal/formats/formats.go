// Package formats reads what people have: objects of Kubernetes, and files of clients and of registries that list MCP
// servers. Each format is a row of all, and a file of this package.
package formats

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/conversion"
)

// maxFile is how long a file may be, in bytes: people write these, and programs make the rest.
const maxFile = 16 << 20

// Found is what files hold.
type Found struct {
	// Objects are those of Kubernetes, of whatever kind.
	Objects []*unstructured.Unstructured
	// Entries are servers of files of other formats.
	Entries []conversion.Entry
	// Errs are files and documents that cannot be read, or hold nothing that import knows.
	Errs []error
}

// format is one way in which files list servers.
type format struct {
	// name is for a sentence.
	name string
	// is reports whether a document has the format.
	is func(document map[string]any) bool
	// read is what it lists.
	read func(file string, document map[string]any) ([]conversion.Entry, error)
}

func all() []format {
	return []format{
		{"a client's file", isClient, client},
		{"a description of the MCP registry", isServerJSON, readServerJSON},
		{"a compose file", isCompose, compose},
	}
}

// Known are the formats beside objects of Kubernetes, for a sentence.
func Known() string {
	var names []string
	for _, f := range all() {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// Files reads files, and those of folders whose names end as files of a known format do. - is the standard input.
func Files(paths []string, in io.Reader) (found Found) {
	for _, path := range paths {
		if path == "-" {
			found.read("the standard input", io.NopCloser(in))
			continue
		}
		if strings.Contains(path, "://") {
			found.Errs = append(found.Errs, fmt.Errorf("%s is a URL: write curl -fsS URL | kubectl freehold import -f -", path))
			continue
		}
		err := filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir():
				if name := entry.Name(); at != path && (name == ".git" || name == "node_modules") {
					return fs.SkipDir
				}
				return nil
			case at != path && !slices.Contains([]string{".yaml", ".yml", ".json", ".jsonc"}, filepath.Ext(at)):
				return nil
			}
			if info, err := os.Stat(at); at != path && (err != nil || !info.Mode().IsRegular()) {
				return err
			}
			file, err := os.Open(at)
			if err != nil {
				found.Errs = append(found.Errs, err)
				return nil
			}
			found.read(at, file)
			return nil
		})
		if err != nil {
			found.Errs = append(found.Errs, err)
		}
	}
	return found
}

// read reads one file, and closes it. What is wrong with one document does not matter for the next.
func (f *Found) read(name string, file io.ReadCloser) {
	defer func() { _ = file.Close() }() //nolint:errcheck // nothing was written
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		f.Errs = append(f.Errs, fmt.Errorf("%s: %w", name, err))
		return
	case len(text) > maxFile:
		f.Errs = append(f.Errs, fmt.Errorf("%s is longer than 16 MiB", name))
		return
	}
	documents, err := split(text)
	if err != nil {
		f.Errs = append(f.Errs, fmt.Errorf("%s: %w", name, err))
	}
	for _, document := range documents {
		if err := f.take(name, document); err != nil {
			f.Errs = append(f.Errs, fmt.Errorf("%s: %w", name, err))
		}
	}
}

// split divides a file into documents. JSON may have comments and commas too many, as editors let people write it. The
// error is of those that cannot be read; the others are there.
func split(text []byte) (documents []map[string]any, err error) {
	if whole := jsonOf(text); whole != nil {
		return whole, nil
	}
	decoder := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var wrong []error
	for {
		part, err := decoder.Read()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				wrong = append(wrong, fmt.Errorf("reading YAML: %w", err))
			}
			return documents, errors.Join(wrong...)
		}
		if standard := jsonOf(part); standard != nil {
			documents = append(documents, standard...)
			continue
		}
		document := map[string]any{}
		if err := yaml.Unmarshal(part, &document); err != nil {
			wrong = append(wrong, fmt.Errorf("reading YAML: %w", err))
		} else if len(document) > 0 {
			documents = append(documents, document)
		}
	}
}

// deepest is how deep JSON may be: its reader calls itself.
const deepest = 200

// jsonOf are documents of JSON, one or more, nil for anything else.
func jsonOf(text []byte) (documents []map[string]any) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' && !bytes.HasPrefix(text, []byte("/")) || depth(text) > deepest {
		return nil
	}
	if standard, err := hujson.Standardize(bytes.Clone(text)); err == nil {
		text = standard
	}
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		document := map[string]any{}
		if err := decoder.Decode(&document); err != nil {
			if errors.Is(err, io.EOF) {
				return documents
			}
			return nil
		}
		if len(document) > 0 {
			documents = append(documents, document)
		}
	}
}

func depth(text []byte) (most int) {
	now := 0
	for _, b := range text {
		switch b {
		case '{', '[':
			now++
			most = max(most, now)
		case '}', ']':
			now--
		}
	}
	return most
}

var errUnknown = errors.New("it holds no object, and no list of servers that import knows")

// take adds what a document says.
func (f *Found) take(name string, document map[string]any) error {
	kind, _ := document["kind"].(string)
	version, _ := document["apiVersion"].(string)
	if kind != "" && version != "" {
		u := &unstructured.Unstructured{Object: document}
		if !u.IsList() {
			f.Objects = append(f.Objects, u)
			return nil
		}
		return u.EachListItem(func(item runtime.Object) error { //nolint:wrapcheck // it is ours
			f.Objects = append(f.Objects, item.(*unstructured.Unstructured)) //nolint:forcetypeassert // those of one are
			return nil
		})
	}
	for _, format := range all() {
		if format.is(document) {
			entries, err := format.read(name, document)
			f.Entries = append(f.Entries, entries...)
			return err
		}
	}
	return errUnknown
}
