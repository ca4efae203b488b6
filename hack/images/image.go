package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// epoch stands for every time in an image, so that equal content has an equal digest.
var epoch = time.Unix(0, 0).UTC()

// input is all that an image depends on.
type input struct {
	binary string
	user   string
	arch   string
	labels map[string]string
}

// image is one layer with the binary at /<its file name>, which is also the entrypoint.
// The user is a number, because a pod with runAsNonRoot cannot check a name.
func image(in input) (v1.Image, error) {
	content, err := os.ReadFile(in.binary)
	if err != nil {
		return nil, err
	}
	if err := static(content); err != nil {
		return nil, fmt.Errorf("%s: %w", in.binary, err)
	}
	entrypoint := path.Join("/", filepath.Base(in.binary))
	layer, err := layer(entrypoint, content)
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", in.binary, err)
	}
	img, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: epoch}, Comment: entrypoint},
	})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", in.arch
	config.Created = v1.Time{Time: epoch}
	config.Config = v1.Config{
		Entrypoint: []string{entrypoint},
		User:       in.user + ":" + in.user,
		WorkingDir: "/",
		Labels:     in.labels,
	}
	return mutate.ConfigFile(img, config)
}

// layer is a tar archive with the one file.
func layer(name string, content []byte) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	header := &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     name[1:],
		Size:     int64(len(content)),
		Mode:     0o755,
		ModTime:  epoch,
	}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	})
}

// static refuses a binary that asks for a loader: nothing else is in the image, and the
// container would end with "no such file or directory", which names the wrong file.
func static(content []byte) error {
	file, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("not a Linux binary: %w", err)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf("is linked dynamically: build it with CGO_ENABLED=0")
		}
	}
	return nil
}
