// Rootfs makes an image of a folder, for what is not one static Go binary. The image names no entrypoint: the pod states
// its command and its user. It is for tests, and has no bill of materials.
//
//	go -C hack/images run ./rootfs -name freehold.dev/provider:dev -archive PATH FOLDER
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	tag := flag.String("name", "", "`name:tag` of the image")
	archive := flag.String("archive", "", "`path` of the docker archive to write")
	flag.Parse()
	if err := run(*tag, *archive, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "rootfs:", err)
		os.Exit(1)
	}
}

func run(tag, archive, folder string) error {
	if tag == "" || archive == "" || folder == "" {
		return errors.New("-name, -archive and a folder are needed")
	}
	ref, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	data, err := packed(folder)
	if err != nil {
		return fmt.Errorf("packing %s: %w", folder, err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", runtime.GOARCH, v1.Time{Time: time.Unix(0, 0).UTC()}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	return tarball.WriteToFile(archive, ref, image)
}

// packed is a tar archive of the files below a folder, whose times and owners do not enter.
func packed(folder string) ([]byte, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	root := os.DirFS(folder)
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := fs.Stat(root, path) // what a link leads to
		if err != nil {
			return err
		}
		content, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path, Size: int64(len(content)), Mode: int64(info.Mode().Perm()), ModTime: time.Unix(0, 0)}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	return archive.Bytes(), errors.Join(err, w.Close())
}
