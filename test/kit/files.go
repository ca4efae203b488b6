package kit

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kubernetesVersion is the version whose binaries `make controlplane` builds unless told otherwise.
const kubernetesVersion = "v1.36.3"

// module is the import path of the repository.
const module = "github.com/freehold-dev/freehold"

// Root returns the root of the repository. It is found by walking up to its go.mod,
// or, from a module of somebody else's, where the go command has it.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module "+module+"\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if err == nil || parent == dir {
			break
		}
		dir = parent
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if root := strings.TrimSpace(string(out)); err == nil && root != "" {
		return root, nil
	}
	return "", fmt.Errorf("finding the files of %s: the module of the working directory does not require it, or they "+
		"are not downloaded: %w", module, err)
}

// Build makes the binary of a program of the repository, such as ./cmd/runner, with the flags of the product.
func Build(ctx context.Context, program, binary string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-tags", "fieldsv1string", "-ldflags", "-s -w", "-o", binary, program)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", program, err, out)
	}
	return nil
}

func assets(root string, alone bool) (string, error) {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		dir = filepath.Join(root, "bin", "k8s", kubernetesVersion)
	}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("%s is not in %s: run make controlplane in the repository of Freehold, or setup-envtest, "+
				"and set KUBEBUILDER_ASSETS", name, dir)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, controllerManagerName)); err != nil && !alone {
		return "", fmt.Errorf("%s is not in %s, and setup-envtest installs none: run make controlplane in the repository "+
			"of Freehold and set "+
			"KUBEBUILDER_ASSETS, or start the plane with kit.Alone()", controllerManagerName, dir)
	}
	return dir, nil
}

// controllerManagerName is the program that makes pods for Deployments.
const controllerManagerName = "kube-controller-manager"
