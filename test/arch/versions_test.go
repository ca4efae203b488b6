package arch

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

var (
	// aKubernetesList is where the supported releases stand.
	aKubernetesList = regexp.MustCompile(`(?m)^K8S_VERSIONS \?= (.+)$`)
	// aKubernetes is a release as programs, scripts and pages write it.
	aKubernetes = regexp.MustCompile(`\bv1\.3\d\.\d+\b`)
)

// supported are the releases of Kubernetes that the Makefile names, in its order.
func supported(t *testing.T, makefile string) []string {
	t.Helper()
	list := aKubernetesList.FindStringSubmatch(makefile)
	if list == nil {
		t.Fatal("the Makefile has no K8S_VERSIONS")
	}
	return strings.Fields(list[1])
}

// otherKubernetes finds releases in a text that are not supported.
func otherKubernetes(name, text string, supported []string) []string {
	var findings []string
	for number, line := range strings.Split(text, "\n") {
		for _, version := range aKubernetes.FindAllString(line, -1) {
			if !slices.Contains(supported, version) {
				findings = append(findings, fmt.Sprintf("%s:%d: %s is not among K8S_VERSIONS of the Makefile", name, number+1,
					version))
			}
		}
	}
	return findings
}

// unpinned compares the list with what else must say the same: the module that builds the newest, the range of the
// chart, and the page about them.
func unpinned(supported []string, controlplane, chart, page string) []string {
	var findings []string
	if !slices.IsSortedFunc(supported, semver.Compare) {
		findings = append(findings, "K8S_VERSIONS is not in order: the last is the default")
	}
	newest := supported[len(supported)-1]
	file, err := modfile.Parse("go.mod", []byte(controlplane), nil)
	if err != nil {
		return []string{err.Error()}
	}
	for _, require := range file.Require {
		if require.Mod.Path == "k8s.io/kubernetes" && require.Mod.Version != newest {
			findings = append(findings, fmt.Sprintf("hack/controlplane/go.mod builds %s, K8S_VERSIONS ends with %s",
				require.Mod.Version, newest))
		}
	}
	oldest := strings.TrimPrefix(semver.MajorMinor(supported[0]), "v")
	if want := `kubeVersion: ">=` + oldest + `.0-0"`; !strings.Contains(chart, want) {
		findings = append(findings, "config/chart/Chart.yaml does not say "+want)
	}
	for _, version := range supported {
		if !strings.Contains(page, "| "+version+" |") {
			findings = append(findings, "docs/versions.md has no row for "+version)
		}
	}
	return findings
}

func TestKubernetesIsPinnedInOnePlace(t *testing.T) {
	list := supported(t, read(t, "Makefile"))
	report(t, unpinned(list, read(t, "hack/controlplane/go.mod"), read(t, "config/chart/Chart.yaml"),
		read(t, "docs/versions.md")))
	for _, name := range files(t) {
		// Module files and the list of licences speak of modules, which have numbers of their own.
		if base := path.Base(name); base != "go.mod" && base != "go.sum" && name != "docs/maintainers/licenses.md" {
			report(t, otherKubernetes(name, read(t, name), list))
		}
	}
}

func TestOtherVersionsAreSeen(t *testing.T) {
	list := []string{"v1.34.4", "v1.36.3"}
	text := "const a = \"v1.36.3\"\nv1.34." + "9, and 1.36.0\n"
	expect(t, otherKubernetes("x.go", text, list), "x.go:2: v1.34."+"9 is not among")

	expect(t, unpinned(list, "module x\n\nrequire k8s.io/kubernetes v1.36.3\n", `kubeVersion: ">=1.34.0-0"`,
		"| v1.34.4 |\n| v1.36.3 |"))
	expect(t, unpinned([]string{"v1.36.3", "v1.34.4"}, "module x\n\nrequire k8s.io/kubernetes v1.36.3\n",
		`kubeVersion: ">=1.30.0-0"`, "| v1.34.4 |"),
		"not in order", "builds v1.36.3", `kubeVersion: ">=1.36.0-0"`, "no row for v1.36.3")
}
