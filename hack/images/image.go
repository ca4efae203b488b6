package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// epoch stands for every time in an image, so that equal content has an equal digest.
var epoch = time.Unix(0, 0).UTC()

// input is all that an image depends on, besides its binary.
type input struct {
	user   string
	labels map[string]string
	// files are the sources of further files by their paths in the image.
	files map[string]string
	// licenses are those of all modules that may be linked, or nil: then the SBOM has none.
	licenses map[string]string
}

// built is an image for one platform, and what it is made of.
type built struct {
	image    v1.Image
	platform v1.Platform
	sbom     []byte
}

// build makes an image with the binary at /<its file name>, which is also the entrypoint, above a layer with the files.
func build(in input, binary, version string) (built, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return built{}, err
	}
	platform, err := platformOf(content)
	if err != nil {
		return built{}, fmt.Errorf("%s: %w", binary, err)
	}
	sbom, err := sbomOf(content, version, in.licenses)
	if err != nil {
		return built{}, fmt.Errorf("listing what %s is made of: %w", binary, err)
	}
	files := map[string][]byte{}
	for target, source := range in.files {
		if files[target], err = os.ReadFile(source); err != nil {
			return built{}, err
		}
	}
	entrypoint := path.Join("/", filepath.Base(binary))
	image, err := assemble(in, platform, entrypoint, content, files)
	return built{image, platform, sbom}, err
}

// assemble stacks the layers. The user is a number, because a pod with runAsNonRoot cannot check a name.
func assemble(
	in input, platform v1.Platform, entrypoint string, binary []byte, files map[string][]byte,
) (v1.Image, error) {
	var layers []mutate.Addendum
	add := func(comment string, mode int64, files map[string][]byte) error {
		l, err := layer(mode, files)
		if err != nil {
			return fmt.Errorf("packing %s: %w", comment, err)
		}
		layers = append(layers, mutate.Addendum{
			Layer:   l,
			History: v1.History{Created: v1.Time{Time: epoch}, Comment: comment},
		})
		return nil
	}
	if len(files) > 0 {
		if err := add("texts", 0o644, files); err != nil {
			return nil, err
		}
	}
	if err := add(entrypoint, 0o755, map[string][]byte{entrypoint: binary}); err != nil {
		return nil, err
	}
	image, err := mutate.Append(empty.Image, layers...)
	if err != nil {
		return nil, err
	}
	return configured(image, platform, v1.Config{
		Entrypoint: []string{entrypoint},
		User:       in.user + ":" + in.user,
		WorkingDir: "/",
		Labels:     in.labels,
	})
}

// configured is an image of a platform, with how it is run.
func configured(image v1.Image, platform v1.Platform, how v1.Config) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = platform.OS, platform.Architecture
	config.Created, config.Config = v1.Time{Time: epoch}, how
	return mutate.ConfigFile(image, config)
}

// ofFolder makes an image of a folder for this machine's platform, for what is not one static Go binary. It names no
// entrypoint: the pod states its command. It is for tests, and has no SBOM.
func ofFolder(folder, user string) (built, error) {
	files, root := map[string][]byte{}, os.DirFS(folder)
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files["/"+path], err = fs.ReadFile(root, path) // what a link leads to
		}
		return err
	})
	if err != nil {
		return built{}, fmt.Errorf("packing %s: %w", folder, err)
	}
	content, err := layer(0o755, files)
	if err != nil {
		return built{}, err
	}
	image, err := mutate.AppendLayers(empty.Image, content)
	if err != nil {
		return built{}, err
	}
	platform := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	image, err = configured(image, platform, v1.Config{User: user})
	return built{image: image, platform: platform}, err
}

// layer is a tar archive with the files, in the order of their paths.
func layer(mode int64, files map[string][]byte) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{
			Typeflag: tar.TypeReg,
			Name:     name[1:],
			Size:     int64(len(files[name])),
			Mode:     mode,
			ModTime:  epoch,
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	})
}

// machines are the platforms that images are made for.
var machines = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// platformOf reads what a binary runs on. It refuses one that asks for a loader: nothing else is in the image, and the
// container would end with "no such file or directory", which names the wrong file.
func platformOf(content []byte) (v1.Platform, error) {
	file, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return v1.Platform{}, fmt.Errorf("not a Linux binary: %w", err)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			return v1.Platform{}, errors.New("is linked dynamically: build it with CGO_ENABLED=0")
		}
	}
	arch, known := machines[file.Machine]
	if !known {
		return v1.Platform{}, fmt.Errorf("is for %v, which no image is made for", file.Machine)
	}
	return v1.Platform{OS: "linux", Architecture: arch}, nil
}
