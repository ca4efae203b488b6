package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func serve(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// packed is a chart with a chart below it, as helm package writes it.
func packed(t *testing.T) string {
	t.Helper()
	var content bytes.Buffer
	compressed := gzip.NewWriter(&content)
	archive := tar.NewWriter(compressed)
	for _, file := range [][2]string{
		{"x/charts/below/Chart.yaml", "name: below"},
		{"x/Chart.yaml", "name: x\nversion: 1.2.3\n"},
	} {
		if err := archive.WriteHeader(&tar.Header{Name: file[0], Mode: 0o644, Size: int64(len(file[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(file[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x-1.2.3.tgz")
	if err := os.WriteFile(path, content.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A chart has one digest wherever and whenever it is pushed, and is what helm pull reads.
func TestAChartIsAnArtifactOfHelm(t *testing.T) {
	chart, digests := packed(t), map[string]bool{}
	for range 2 {
		to := serve(t) + "/charts/x:1.2.3"
		var out strings.Builder
		if err := run([]string{"-to", to, "-chart", chart}, &out); err != nil {
			t.Fatal(err)
		}
		_, digest, _ := strings.Cut(strings.TrimSpace(out.String()), "@")
		digests[digest] = true
		ref, err := name.ParseReference(to)
		if err != nil {
			t.Fatal(err)
		}
		got, err := remote.Get(ref)
		if err != nil || got.Digest.String() != digest {
			t.Fatalf("%s is in the registry, %s was said (%v)", got.Digest, digest, err)
		}
		image, err := got.Image()
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := image.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.RawConfigFile()
		var metadata map[string]string
		if err != nil || json.Unmarshal(config, &metadata) != nil || metadata["name"] != "x" ||
			metadata["version"] != "1.2.3" {
			t.Errorf("the configuration is %s (%v), want Chart.yaml as JSON", config, err)
		}
		if manifest.Config.MediaType != chartConfig || len(manifest.Layers) != 1 ||
			manifest.Layers[0].MediaType != chartContent {
			t.Errorf("the manifest is %+v", manifest)
		}
	}
	if len(digests) != 1 {
		t.Errorf("one chart has the digests %v", digests)
	}
}

func TestALayoutIsPushedWhole(t *testing.T) {
	index, err := random.Index(64, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	artifact, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	target, err := layout.Write(folder, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: artifact}))
	if err != nil {
		t.Fatal(err)
	}
	to := serve(t) + "/x:v1"
	if err := run([]string{"-to", to, "-layout", folder}, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "holds no index") {
		t.Errorf("a layout without an index is pushed: %v", err)
	}
	if err := target.AppendIndex(index); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-to", to, "-layout", folder}, io.Discard); err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewTag(to)
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(got); err != nil {
		t.Error(err)
	}
	digest, err := artifact.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := remote.Image(ref.Context().Digest(digest.String())); err != nil {
		t.Errorf("what is beside the index is left out: %v", err)
	}
}

func TestFlagsOfPush(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"-to", "x/y:1"},
		{"-to", "x/y:1", "-layout", "a", "-chart", "b"},
		{"-to", "no tag", "-chart", "b"},
	} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
