// Package install holds what users install to what they get: the manifest of a release, applied by kubectl to an API
// server that knows nothing of Freehold, and the operator's program with the flags and rights of that file.
//
// suite_test.go starts the API server, manifest_test.go has the story of the manifest, metrics_test.go that of metrics
// with a certificate, helm_test.go that of a release of Helm, and certificate_test.go makes certificates.
package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/test/kit"
)

var (
	plane *kit.Plane
	// program is the operator's.
	program string
	// manifest is install.yaml, as hack/release.sh makes it.
	manifest string
	// root is the repository's.
	root string
)

func TestMain(m *testing.M) {
	// The manifest has CRDs of its own.
	kit.Main(m, &plane, func(ctx context.Context, dir string) (err error) {
		program, manifest = filepath.Join(dir, "operator"), filepath.Join(dir, "install.yaml")
		if root, err = kit.Root(); err != nil {
			return err
		}
		return errors.Join(kit.Build(ctx, "./cmd/operator", program),
			renderTo(manifest, "hack/manifest.sh", "config/chart", "v0.0.0"))
	}, kit.Audited(), kit.WithoutDefinitions())
}

// renderTo writes what a command of the repository prints.
func renderTo(file, command string, args ...string) error {
	run := exec.Command(filepath.Join(root, command), args...)
	run.Dir = root
	var failed bytes.Buffer
	run.Stderr = &failed
	out, err := run.Output()
	if err != nil {
		return fmt.Errorf("running %s: %w\n%s", command, err, failed.String())
	}
	return os.WriteFile(file, out, 0o600)
}

// kubectl runs the control plane's own kubectl as its administrator.
func kubectl(s *kit.Env, args ...string) string {
	s.Helper()
	kubeconfig := filepath.Join(s.TempDir(), "kubeconfig")
	s.Must(kit.WriteKubeconfig(kubeconfig, plane.Config, s.Namespace), "preparing kubectl")
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		s.Fatal("KUBEBUILDER_ASSETS is not set: make test sets it")
	}
	run := exec.Command(filepath.Join(assets, "kubectl"), args...)
	run.Env = []string{"KUBECONFIG=" + kubeconfig, "HOME=" + s.TempDir()}
	out, err := run.CombinedOutput()
	if err != nil {
		s.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// objects are those of a file, in its order.
func objects(s *kit.Env, file string) []*unstructured.Unstructured {
	s.Helper()
	text, err := os.ReadFile(file)
	s.Must(err, "reading "+file)
	var found []*unstructured.Unstructured
	for document := range strings.SplitSeq("\n"+string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		s.Must(yaml.Unmarshal([]byte(document), &object.Object), "reading "+file)
		if len(object.Object) > 0 {
			found = append(found, object)
		}
	}
	return found
}

// find is the one object of a kind.
func find[T any](s *kit.Env, all []*unstructured.Unstructured, kind string, into *T) *T {
	s.Helper()
	for _, object := range all {
		if object.GetKind() == kind {
			text, err := object.MarshalJSON()
			s.Must(err, "reading a "+kind)
			s.Must(yaml.Unmarshal(text, into), "reading a "+kind)
			return into
		}
	}
	s.Fatalf("there is no %s", kind)
	return nil
}

// operate runs the operator's program with the flags of the Deployment in a file, and with a token of its
// ServiceAccount: with the rights of that file, and no others. More flags say where on this machine it serves.
func operate(s *kit.Env, file string, more ...string) (end func()) {
	s.Helper()
	deployment := find(s, objects(s, file), "Deployment", &appsv1.Deployment{})
	pod := deployment.Spec.Template.Spec
	config, err := plane.ConfigOf(s.Ctx, deployment.Namespace, pod.ServiceAccountName)
	s.Must(err, "becoming the operator")
	return s.Run(program, config, append(append(pod.Containers[0].Args, "--probe-address=0"), more...)...)
}

// live is what the API server has of an object.
func live(s *kit.Env, object *unstructured.Unstructured) *unstructured.Unstructured {
	s.Helper()
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(object.GroupVersionKind())
	s.Must(s.Client.Get(s.Ctx, client.ObjectKeyFromObject(object), found),
		"reading "+object.GetKind()+" "+object.GetName())
	return found
}
