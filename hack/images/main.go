// Images makes container images around static Go binaries, without a container engine.
//
//	go -C hack/images run . -name freehold.dev/operator:dev -binary PATH -archive bin/images/operator.tar
//	go -C hack/images run . -name freehold.dev/operator:dev -binary AMD64 -binary ARM64 -layout bin/images/operator
//
// An archive holds one platform, in the form that `docker save` writes and that docker, podman, kind and containerd's
// ctr load alike. A layout is an OCI image layout: an index over one image a binary, with the software bill of
// materials (SBOM) of each as its referrer, ready for `oras cp --recursive --from-oci-layout`. Either way the SBOMs are
// also written beside it. Which platform a binary is for stands in the binary.
//
// The same binaries, files and flags give the same bytes: no clock and no owner of a file enters. Relative paths start
// at the root of the repository.
//
// build.sh beside this file makes the images that the cluster and its demo need; licenses finds the licences.
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
	in := input{labels: map[string]string{}, files: map[string]string{}}
	var binaries []string
	tag := flags.String("name", "", "`name:tag` of the image")
	archive := flags.String("archive", "", "`path` of the docker archive to write, for one binary")
	layout := flags.String("layout", "", "`path` of the OCI image layout to write, for any number of platforms")
	flags.Func("binary", "`path` of a static binary, which becomes the entrypoint; may be repeated for other platforms",
		func(path string) error {
			binaries = append(binaries, fromRoot(path))
			return nil
		})
	folder := flags.String("folder", "", "`path` of a folder to make an -archive of, in place of a binary; for tests")
	licenses := flags.String("licenses", "", "`path` of the page that says under which licence each module is")
	flags.StringVar(&in.user, "user", "65532", "numeric `uid` that the binary runs as; a folder's only where it is given")
	flags.Func("label", "`key=value`, may be repeated", pairs(in.labels))
	flags.Func("file", "`/path=source` of a file to put into the image, may be repeated", func(pair string) error {
		target, source, _ := strings.Cut(pair, "=")
		return pairs(in.files)(target + "=" + fromRoot(source))
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *tag == "" || (len(binaries) == 0) == (*folder == "") || (*archive == "") == (*layout == "") ||
		*folder != "" && *layout != "" {
		return errors.New("-name, -binary and either -archive or -layout are needed, or -name, -folder and -archive")
	}
	ref, err := name.NewTag(*tag)
	if err != nil {
		return fmt.Errorf("reading -name: %w", err)
	}
	if *licenses != "" {
		if in.licenses, err = readLicenses(fromRoot(*licenses)); err != nil {
			return err
		}
	}
	var made []built
	if *folder != "" {
		b, err := ofFolder(fromRoot(*folder), given(flags, "user"))
		if err != nil {
			return err
		}
		made = append(made, b)
	}
	for _, binary := range binaries {
		b, err := build(in, binary, ref.TagStr())
		if err != nil {
			return err
		}
		made = append(made, b)
	}
	if *layout != "" {
		return writeLayout(fromRoot(*layout), ref, made)
	}
	return writeArchive(fromRoot(*archive), ref, made)
}

// given is the value of a flag that is given, else empty.
func given(flags *flag.FlagSet, name string) (value string) {
	flags.Visit(func(f *flag.Flag) {
		if f.Name == name {
			value = f.Value.String()
		}
	})
	return value
}

// pairs reads a flag of the form key=value into a map.
func pairs(into map[string]string) func(string) error {
	return func(pair string) error {
		key, value, found := strings.Cut(pair, "=")
		if !found || key == "" || value == "" {
			return fmt.Errorf("%q is not key=value", pair)
		}
		into[key] = value
		return nil
	}
}

// fromRoot resolves a relative path against the repository's root, two folders above the
// one that `go -C hack/images run .` runs this program in.
func fromRoot(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join("..", "..", path)
}

// writeArchive writes NAME.tar, and the SBOM, if there is one, as NAME.cdx.json.
func writeArchive(path string, ref name.Tag, made []built) error {
	if len(made) != 1 {
		return fmt.Errorf("an archive holds one platform, not %d: ask for a -layout", len(made))
	}
	if sbom := made[0].sbom; sbom != nil {
		fill := func(path string) error { return os.WriteFile(path, sbom, 0o644) }
		if err := write(strings.TrimSuffix(path, ".tar")+sbomSuffix, fill); err != nil {
			return err
		}
	}
	return write(path, func(path string) error { return tarball.WriteToFile(path, ref, made[0].image) })
}

// write lets nobody see half a file, or half a folder, under the final name.
func write(path string, fill func(string) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	partial := path + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := fill(partial); err != nil {
		return fmt.Errorf("writing %s: %w", path, errors.Join(err, os.RemoveAll(partial)))
	}
	// A folder is not replaced by a rename.
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return os.Rename(partial, path)
}
