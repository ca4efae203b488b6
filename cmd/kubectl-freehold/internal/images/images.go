// Package images reads the configs of images: from a registry, with the login of the user's docker or podman, or from
// an archive that `docker save` or a tool like it made.
package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/conversion"
)

// patience is how long one registry may take. An image is asked for its manifest and its config, a few KB.
const patience = 15 * time.Second

// Registry asks registries for the image of a platform, for example linux/amd64. The error is a platform of another
// form.
func Registry(platform string) (conversion.Images, error) {
	of, err := v1.ParsePlatform(platform)
	if err != nil {
		return nil, fmt.Errorf("--platform is %q: write for example linux/amd64", platform)
	}
	return func(ctx context.Context, image string) (conversion.Image, error) {
		ref, err := name.ParseReference(image)
		if err != nil {
			return conversion.Image{}, fmt.Errorf("reading the image's name: %w", err)
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		found, err := remote.Image(ref, remote.WithContext(ctx), remote.WithPlatform(*of),
			remote.WithAuthFromKeychain(authn.DefaultKeychain))
		if err != nil {
			return conversion.Image{}, fmt.Errorf("asking the registry: %w", err)
		}
		return configOf(found)
	}, nil
}

// Archive reads images from a file, which has them by their names.
func Archive(file string) conversion.Images {
	return func(_ context.Context, image string) (conversion.Image, error) {
		tag, err := name.NewTag(image)
		if err != nil {
			return conversion.Image{}, fmt.Errorf("reading the image's name: %w", err)
		}
		found, err := tarball.ImageFromPath(file, &tag)
		if err != nil {
			return conversion.Image{}, fmt.Errorf("reading %s: %w", file, err)
		}
		return configOf(found)
	}
}

// maxConfig is how long a config may be, in bytes.
const maxConfig = 1 << 20

func configOf(image v1.Image) (conversion.Image, error) {
	digest, err := image.Digest()
	if err != nil {
		return conversion.Image{}, fmt.Errorf("reading the image: %w", err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		return conversion.Image{}, fmt.Errorf("reading the image's manifest: %w", err)
	}
	if manifest.Config.Size > maxConfig {
		return conversion.Image{}, errors.New("the image's config is longer than 1 MiB")
	}
	file, err := image.ConfigFile()
	if err != nil {
		return conversion.Image{}, fmt.Errorf("reading the image's config: %w", err)
	}
	config := file.Config
	return conversion.Image{
		Digest: digest.String(), Entrypoint: config.Entrypoint, Command: config.Cmd, Env: config.Env, User: config.User,
		Ports: portsOf(config.ExposedPorts),
	}, nil
}

// portsOf are the TCP ports of an image's config, whose keys are PORT or PORT/PROTOCOL
// (https://github.com/opencontainers/image-spec/blob/main/config.md).
func portsOf(exposed map[string]struct{}) (ports []int32) {
	for key := range exposed {
		number, protocol, _ := strings.Cut(key, "/")
		if port, err := strconv.ParseUint(number, 10, 16); err == nil && port > 0 && (protocol == "" || protocol == "tcp") {
			ports = append(ports, int32(port))
		}
	}
	slices.Sort(ports)
	return ports
}
