// Images makes a container image around one static binary, without a container engine.
//
//	go -C hack/images run . -name freehold.dev/operator:dev -binary PATH -out bin/images/operator.tar
//
// The archive is of the form that `docker save` writes, which docker, podman, kind and
// containerd's ctr load alike. The same binary and flags give the same bytes: no clock and no
// owner of a file enters. Relative paths start at the root of the repository.
//
// build.sh beside this file makes the images that the cluster and its demo need.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	in := input{labels: map[string]string{}}
	tag := flags.String("name", "", "`name:tag` of the image")
	binary := flags.String("binary", "", "`path` of the static binary, which becomes the entrypoint")
	out := flags.String("out", "", "`path` of the archive to write")
	flags.StringVar(&in.user, "user", "65532", "numeric `uid` that the binary runs as")
	flags.StringVar(&in.arch, "arch", "amd64", "`GOARCH` of the binary")
	flags.Func("label", "`key=value`, may be repeated", in.label)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *tag == "" || *binary == "" || *out == "" {
		return errors.New("-name, -binary and -out are all needed")
	}
	ref, err := name.NewTag(*tag)
	if err != nil {
		return fmt.Errorf("reading -name: %w", err)
	}
	in.binary = fromRoot(*binary)
	img, err := image(in)
	if err != nil {
		return err
	}
	return write(fromRoot(*out), func(path string) error {
		return tarball.WriteToFile(path, ref, img)
	})
}

// label is the flag -label.
func (in *input) label(pair string) error {
	key, value, found := strings.Cut(pair, "=")
	if !found || key == "" {
		return fmt.Errorf("%q is not key=value", pair)
	}
	in.labels[key] = value
	return nil
}

// fromRoot resolves a relative path against the repository's root, two folders above the
// one that `go -C hack/images run .` runs this program in.
func fromRoot(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join("..", "..", path)
}

// write lets nobody see half an archive under the final name.
func write(path string, fill func(string) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	partial := path + ".partial"
	if err := fill(partial); err != nil {
		return fmt.Errorf("writing %s: %w", path, errors.Join(err, os.Remove(partial)))
	}
	return os.Rename(partial, path)
}
