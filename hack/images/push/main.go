// Push pushes what a release is made of to a registry: an OCI image layout, as this folder's program writes it, with
// its SBOMs as referrers; or a chart that `helm package` made, as the artifact that `helm pull` takes. It prints the
// reference with its digest. Equal files have equal digests, unlike with `helm push`, which puts the time into the
// manifest.
//
//	go -C hack/images run ./push -to registry.example.com/freehold/operator:v1.2.3 -layout bin/images/operator
//	go -C hack/images run ./push -to registry.example.com/freehold/charts/freehold:1.2.3 -chart freehold-1.2.3.tgz
//
// Credentials are those of docker's configuration.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// The types of a chart's artifact: https://helm.sh/docs/topics/registries/#the-helm-chart-manifest
const (
	chartConfig  = types.MediaType("application/vnd.cncf.helm.config.v1+json")
	chartContent = types.MediaType("application/vnd.cncf.helm.chart.content.v1.tar+gzip")
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "push:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("push", flag.ContinueOnError)
	to := flags.String("to", "", "`registry/name:tag` to push to")
	folder := flags.String("layout", "", "`path` of an OCI image layout")
	chart := flags.String("chart", "", "`path` of a packed chart")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *to == "" || (*folder == "") == (*chart == "") {
		return errors.New("-to and either -layout or -chart are needed")
	}
	ref, err := name.NewTag(*to, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("reading -to: %w", err)
	}
	push, from := pushLayout, *folder
	if *chart != "" {
		push, from = pushChart, *chart
	}
	digest, err := push(ref, from, remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return fmt.Errorf("pushing %s: %w", from, err)
	}
	fmt.Fprintf(out, "%s@%s\n", ref.Context(), digest)
	return nil
}

// pushLayout pushes the one index of a layout under the tag, then the artifacts beside it, which name its images as
// their subjects.
func pushLayout(ref name.Tag, folder string, options ...remote.Option) (digest v1.Hash, err error) {
	top, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return v1.Hash{}, err
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return v1.Hash{}, err
	}
	var artifacts []v1.Descriptor
	for _, part := range manifest.Manifests {
		if !part.MediaType.IsIndex() {
			artifacts = append(artifacts, part)
			continue
		}
		if digest != (v1.Hash{}) {
			return v1.Hash{}, errors.New("the layout holds two indexes")
		}
		index, err := top.ImageIndex(part.Digest)
		if err != nil {
			return v1.Hash{}, err
		}
		if err := remote.WriteIndex(ref, index, options...); err != nil {
			return v1.Hash{}, err
		}
		digest = part.Digest
	}
	if digest == (v1.Hash{}) {
		return v1.Hash{}, errors.New("the layout holds no index")
	}
	for _, part := range artifacts {
		artifact, err := top.Image(part.Digest)
		if err != nil {
			return v1.Hash{}, err
		}
		if err := remote.Write(ref.Context().Digest(part.Digest.String()), artifact, options...); err != nil {
			return v1.Hash{}, err
		}
	}
	return digest, nil
}

// pushChart pushes a packed chart. Its configuration is the content of Chart.yaml.
func pushChart(ref name.Tag, file string, options ...remote.Option) (v1.Hash, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return v1.Hash{}, err
	}
	metadata, err := metadataIn(content)
	if err != nil {
		return v1.Hash{}, err
	}
	var parts []v1.Descriptor
	for _, part := range []v1.Layer{static.NewLayer(metadata, chartConfig), static.NewLayer(content, chartContent)} {
		descriptor, err := partial.Descriptor(part)
		if err != nil {
			return v1.Hash{}, err
		}
		parts = append(parts, *descriptor)
		if err := remote.WriteLayer(ref.Context(), part, options...); err != nil {
			return v1.Hash{}, err
		}
	}
	manifest, err := json.Marshal(
		v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: parts[0], Layers: parts[1:]})
	if err != nil {
		return v1.Hash{}, err
	}
	digest, _, err := v1.SHA256(bytes.NewReader(manifest))
	return digest, errors.Join(err, remote.Put(ref, artifact(manifest), options...))
}

// metadataIn is Chart.yaml of a packed chart, as JSON.
func metadataIn(packed []byte) ([]byte, error) {
	content, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if err != nil {
			return nil, fmt.Errorf("looking for Chart.yaml: %w", err)
		}
		if dir, base := path.Split(path.Clean(header.Name)); base != "Chart.yaml" || strings.Count(dir, "/") != 1 {
			continue
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			return nil, err
		}
		return yaml.YAMLToJSON(text)
	}
}

// artifact is a manifest of OCI.
type artifact []byte

// RawManifest is the manifest as it is pushed.
func (a artifact) RawManifest() ([]byte, error) { return a, nil }

// MediaType is its type.
func (a artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
