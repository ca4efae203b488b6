package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/xeipuuv/gojsonschema"
)

// binary builds a command of this module for a platform.
func binary(t *testing.T, pkg, arch string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pause")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, "./"+pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s for %s: %v\n%s", pkg, arch, err, out)
	}
	return path
}

// makeImage runs this program with the binary and a text.
func makeImage(t *testing.T, to string, flags ...string) {
	t.Helper()
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("as is\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-name", "freehold.dev/pause:v1", "-file", "/licenses/TEXT=" + text, "-label", "a=b"},
		flags...)
	if err := run(append(args, to)); err != nil {
		t.Fatal(err)
	}
}

// tree is the content of every file below a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, dir)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestEqualInputGivesEqualBytes(t *testing.T) {
	amd, arm := binary(t, "pause", "amd64"), binary(t, "pause", "arm64")
	first, second := t.TempDir(), t.TempDir()
	makeImage(t, first+"/pause.tar", "-binary", amd, "-archive")
	makeImage(t, first+"/pause", "-binary", amd, "-binary", arm, "-layout")
	// Another time and other modes of the same content.
	for _, path := range []string{amd, arm} {
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	makeImage(t, second+"/pause.tar", "-binary", amd, "-archive")
	makeImage(t, second+"/pause", "-binary", amd, "-binary", arm, "-layout")
	// A second time over the first.
	makeImage(t, second+"/pause", "-binary", amd, "-binary", arm, "-layout")
	if diff := cmp.Diff(tree(t, first), tree(t, second)); diff != "" {
		t.Errorf("the same input gave other bytes:\n%s", diff)
	}
}

func TestLayoutIsWhatARegistryServes(t *testing.T) {
	dir := t.TempDir()
	binaries := map[string]string{"amd64": binary(t, "pause", "amd64"), "arm64": binary(t, "pause", "arm64")}
	makeImage(t, dir+"/pause", "-binary", binaries["amd64"], "-binary", binaries["arm64"], "-layout")

	repository := push(t, dir+"/pause")
	index, err := remote.Index(repository.Tag("v1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("the index is not sound: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, d := range manifest.Manifests {
		platforms = append(platforms, d.Platform.String())
		image, err := remote.Image(repository.Tag("v1"), remote.WithPlatform(*d.Platform))
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, binaries[d.Platform.Architecture], d.Platform.Architecture)
		want, err := os.ReadFile(dir + "/pause_linux_" + d.Platform.Architecture + sbomSuffix)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), referrer(t, repository.Digest(d.Digest.String()))); diff != "" {
			t.Errorf("the registry's SBOM of %s is another one:\n%s", d.Platform, diff)
		}
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
		t.Errorf("platforms of the index:\n%s", diff)
	}
}

// push copies a layout into a registry of this process as a client does: what has a name under that name, and the rest,
// the artifacts, by digest.
func push(t *testing.T, dir string) name.Repository {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true),
		registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	repository, err := name.NewRepository(strings.TrimPrefix(server.URL, "http://") + "/pause")
	if err != nil {
		t.Fatal(err)
	}
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range manifest.Manifests {
		if tag := d.Annotations["org.opencontainers.image.ref.name"]; tag != "" {
			index, err := all.ImageIndex(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			err = remote.WriteIndex(repository.Tag(tag), index)
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		artifact, err := all.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(repository.Digest(d.Digest.String()), artifact); err != nil {
			t.Fatal(err)
		}
	}
	return repository
}

// checkImage compares what a container of the image would see with what went in.
func checkImage(t *testing.T, image v1.Image, binary, arch string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	got := []string{
		config.OS, config.Architecture, config.Config.User, strings.Join(config.Config.Entrypoint, " "),
		config.Config.Labels["a"],
	}
	if diff := cmp.Diff([]string{"linux", arch, "65532:65532", "/pause", "b"}, got); diff != "" {
		t.Errorf("config:\n%s", diff)
	}
	files := mutate.Extract(image)
	defer files.Close()
	content, err := io.ReadAll(files)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(content, want) || !bytes.Contains(content, []byte("as is\n")) {
		t.Errorf("the image for %s has another binary, or lacks the text", arch)
	}
}

// referrer is the one SBOM that a registry finds for an image.
func referrer(t *testing.T, image name.Digest) string {
	t.Helper()
	index, err := remote.Referrers(image)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].ArtifactType != sbomMediaType {
		t.Fatalf("referrers of %s: %+v, want one SBOM", image, manifest.Manifests)
	}
	artifact, err := remote.Image(image.Digest(manifest.Manifests[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	layers, err := artifact.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("the SBOM has %d layers, %v", len(layers), err)
	}
	reader, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestArchiveIsSound(t *testing.T) {
	path := t.TempDir() + "/pause.tar"
	arm := binary(t, "pause", "arm64")
	makeImage(t, path, "-binary", arm, "-archive")
	// It is the archive of `docker save`, which skopeo does not take for one of OCI.
	if page, err := os.ReadFile("../../docs/quick-start.md"); err != nil ||
		!strings.Contains(string(page), "skopeo copy docker-archive:bin/images/") {
		t.Errorf("docs/quick-start.md does not push a docker-archive: %v", err)
	}
	image, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Errorf("the image is not sound: %v", err)
	}
	checkImage(t, image, arm, "arm64")
}

// What is not one static binary is a folder, with what its links lead to, which names no entrypoint.
func TestAFolderIsAnImage(t *testing.T) {
	folder, archive := t.TempDir(), filepath.Join(t.TempDir(), "folder.tar")
	if err := os.Mkdir(filepath.Join(folder, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "node"), []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(folder, "node"), filepath.Join(folder, "lib", "link")); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-name", "example.com/folder:dev", "-folder", folder, "-archive", archive}); err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	config, err := image.ConfigFile()
	if err != nil || len(config.Config.Entrypoint) > 0 || config.OS != "linux" {
		t.Errorf("it is run as %+v (%v)", config, err)
	}
	files := map[string]string{}
	content := tar.NewReader(mutate.Extract(image))
	for header, err := content.Next(); err == nil; header, err = content.Next() {
		text, err := io.ReadAll(content)
		if err != nil || header.Mode != 0o755 {
			t.Errorf("%s has mode %o (%v)", header.Name, header.Mode, err)
		}
		files[header.Name] = string(text)
	}
	if want := map[string]string{"node": "program", "lib/link": "program"}; !maps.Equal(files, want) {
		t.Errorf("it holds %v, want %v", files, want)
	}
	for _, args := range [][]string{
		{"-folder", folder, "-layout", archive},
		{"-folder", folder, "-binary", "pause", "-archive", archive},
	} {
		if err := run(append(args, "-name", "example.com/folder:dev")); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

func TestSBOMSaysWhatGoSays(t *testing.T) {
	path := binary(t, ".", "arm64")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	licenses := map[string]string{}
	want := []string{"pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}
	for _, module := range info.Deps {
		licenses[module.Path] = "MIT AND BSD-3-Clause"
		want = append(want, "pkg:golang/"+module.Path+"@"+strings.ReplaceAll(module.Version, "+", "%2B"))
	}
	sbom, err := sbomOf(content, "v1.2.3", licenses)
	if err != nil {
		t.Fatal(err)
	}
	valid(t, sbom)
	var bom cdx.BOM
	if err := json.Unmarshal(sbom, &bom); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range *bom.Components {
		got = append(got, c.PackageURL)
		if c.Name == "github.com/google/go-containerregistry" && (*c.Licenses)[0].Expression != "MIT AND BSD-3-Clause" {
			t.Errorf("licence of %s: %+v", c.Name, *c.Licenses)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 5 {
		t.Errorf("%d components, Go knows others:\n%s", len(got), diff)
	}
	if main := bom.Metadata.Component.PackageURL; main != "pkg:golang/github.com/freehold-dev/freehold/hack/images@v1.2.3" {
		t.Errorf("the image is called %s", main)
	}

	delete(licenses, "github.com/google/go-containerregistry")
	if _, err := sbomOf(content, "v1.2.3", licenses); err == nil || !strings.Contains(err.Error(), "run make licenses") {
		t.Errorf("a module without a licence gave %v", err)
	}
}

// valid holds an SBOM against the schema of CycloneDX, which the library ships.
func valid(t *testing.T, sbom []byte) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string) gojsonschema.JSONLoader {
		return gojsonschema.NewReferenceLoader("file://" + filepath.Join(strings.TrimSpace(string(dir)), "schema", name))
	}
	// Those that the schema refers to are found by their own names, not by where they say that they can be fetched.
	loader := gojsonschema.NewSchemaLoader()
	if err := loader.AddSchemas(file("spdx.schema.json"), file("jsf-0.82.schemax.json")); err != nil {
		t.Fatal(err)
	}
	text, err := file("bom-1.6.schema.json").LoadJSON()
	if err != nil {
		t.Fatal(err)
	}
	schema, err := loader.Compile(gojsonschema.NewGoLoader(text))
	if err != nil {
		t.Fatal(err)
	}
	result, err := schema.Validate(gojsonschema.NewBytesLoader(sbom))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range result.Errors() {
		t.Errorf("the SBOM breaks the schema: %s", problem)
	}
}

func TestWhatCannotRunIsNotPacked(t *testing.T) {
	amd, arm := binary(t, "pause", "amd64"), binary(t, "pause", "arm64")
	text := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for why, flags := range map[string][]string{
		"not a Linux binary":         {"-binary", text, "-archive", dir + "/x.tar"},
		"is for EM_386":              {"-binary", binary(t, "pause", "386"), "-archive", dir + "/x.tar"},
		"holds one platform, not 2":  {"-binary", amd, "-binary", arm, "-archive", dir + "/x.tar"},
		"two binaries for":           {"-binary", amd, "-binary", amd, "-layout", dir + "/x"},
		"either -archive or -layout": {"-binary", amd},
		"is not key=value":           {"-binary", amd, "-archive", dir + "/x.tar", "-label", "x"},
	} {
		if err := run(append([]string{"-name", "freehold.dev/pause:v1"}, flags...)); err == nil ||
			!strings.Contains(err.Error(), why) {
			t.Errorf("want an error with %q, got %v", why, err)
		}
	}
	if left := tree(t, dir); len(left) > 0 {
		t.Errorf("what was refused has left files: %v", slices.Collect(maps.Keys(left)))
	}
}
