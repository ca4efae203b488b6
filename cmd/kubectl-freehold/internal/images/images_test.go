package images

import (
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/conversion"
)

var said = v1.Config{
	Entrypoint: []string{"/server"}, Cmd: []string{"--all"}, Env: []string{"PATH=/bin", "MODE=fast"}, User: "node",
	ExposedPorts: map[string]struct{}{"8443/tcp": {}, "53/udp": {}, "8080": {}, "x": {}},
}

func image(t *testing.T) v1.Image {
	t.Helper()
	made, err := mutate.Config(empty.Image, said)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func check(t *testing.T, got conversion.Image, err error) {
	t.Helper()
	if err != nil || !slices.Equal(got.Entrypoint, said.Entrypoint) || !slices.Equal(got.Command, said.Cmd) ||
		!slices.Equal(got.Env, said.Env) || got.User != said.User || !slices.Equal(got.Ports, []int32{8080, 8443}) ||
		!strings.HasPrefix(got.Digest, "sha256:") {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestAnImageIsReadFromItsRegistry(t *testing.T) {
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	at := strings.TrimPrefix(server.URL, "http://") + "/team/server:1"
	ref, err := name.ParseReference(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image(t)); err != nil {
		t.Fatal(err)
	}
	read, err := Registry("linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	got, err := read(t.Context(), at)
	check(t, got, err)
	if _, err := read(t.Context(), at+"-not-there"); err == nil || !strings.Contains(err.Error(), "asking the registry") {
		t.Errorf("an image that is not there: %v", err)
	}
	if _, err := read(t.Context(), "NOT A NAME"); err == nil {
		t.Error("a name of no image is taken")
	}
	if _, err := Registry("a/b/c/d/e"); err == nil || !strings.Contains(err.Error(), "linux/amd64") {
		t.Errorf("a platform of another form: %v", err)
	}
}

func TestAnImageIsReadFromAnArchive(t *testing.T) {
	file, tag := filepath.Join(t.TempDir(), "images.tar"), name.MustParseReference("example.com/team/server:1")
	if err := tarball.WriteToFile(file, tag, image(t)); err != nil {
		t.Fatal(err)
	}
	got, err := Archive(file)(t.Context(), "example.com/team/server:1")
	check(t, got, err)
	if _, err := Archive(file)(t.Context(), "another/name"); err == nil {
		t.Error("an image that the archive does not have is read")
	}
	if _, err := Archive(file+"x")(t.Context(), "a"); err == nil {
		t.Error("a file that is not there is read")
	}
}
