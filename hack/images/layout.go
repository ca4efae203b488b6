package main

import (
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// writeLayout writes a folder with the index of all platforms under its tag, beside it in the same folder the SBOM of
// each image as an artifact that names the image as its subject, and next to the folder each SBOM as a file.
// https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md
// https://github.com/opencontainers/image-spec/blob/v1.1.1/manifest.md#guidelines-for-artifact-usage
func writeLayout(path string, ref name.Tag, made []built) error {
	seen := map[string]bool{}
	for _, b := range made {
		if seen[b.platform.String()] {
			return fmt.Errorf("there are two binaries for %s", b.platform)
		}
		seen[b.platform.String()] = true
	}
	if err := write(path, func(path string) error { return fillLayout(path, ref, made) }); err != nil {
		return err
	}
	for _, b := range made {
		file := path + "_" + b.platform.OS + "_" + b.platform.Architecture + sbomSuffix
		if err := write(file, func(path string) error { return os.WriteFile(path, b.sbom, 0o644) }); err != nil {
			return err
		}
	}
	return nil
}

func fillLayout(path string, ref name.Tag, made []built) error {
	target, err := layout.Write(path, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	var images []mutate.IndexAddendum
	for _, b := range made {
		image := mutate.MediaType(mutate.ConfigMediaType(b.image, types.OCIConfigJSON), types.OCIManifestSchema1)
		images = append(images, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &b.platform}})
		if err := appendSBOM(target, image, b.sbom); err != nil {
			return err
		}
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), images...)
	return target.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": ref.TagStr(),
		"io.containerd.image.name":          ref.Name(),
	}))
}

// appendSBOM adds the list of what an image is made of as its referrer.
func appendSBOM(target layout.Path, image v1.Image, sbom []byte) error {
	subject, err := partial.Descriptor(image)
	if err != nil {
		return err
	}
	artifact, err := mutate.AppendLayers(empty.Image, static.NewLayer(sbom, sbomMediaType))
	if err != nil {
		return err
	}
	artifact = mutate.MediaType(mutate.ConfigMediaType(artifact, sbomMediaType), types.OCIManifestSchema1)
	return target.AppendImage(mutate.Subject(artifact, *subject).(v1.Image))
}
