//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// needs maps the programs that a node calls to the Debian packages that bring them.
var needs = map[string]string{
	"containerd": "containerd",
	"ctr":        "containerd",
	"ip":         "iproute2",
	"nft":        "nftables",
	"runc":       "runc",
}

// missingPackages lists what is not installed, in order.
func missingPackages() []string {
	var missing []string
	for program, name := range needs {
		if _, err := exec.LookPath(program); err != nil && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if _, err := os.Stat(filepath.Join(cniPlugins(), "ptp")); err != nil {
		missing = append(missing, "containernetworking-plugins")
	}
	slices.Sort(missing)
	return missing
}

// install gets the missing packages from the distribution, where that is Debian or like it.
func install() error {
	missing := missingPackages()
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return packagesMissing(missing)
	}
	fmt.Println("installing the packages", strings.Join(missing, ", "))
	get := append([]string{"install", "--yes", "--no-install-recommends"}, missing...)
	if apt(get...) != nil {
		// The package lists may be old, or missing as in a fresh container.
		if err := errors.Join(apt("update"), apt(get...)); err != nil {
			return err
		}
	}
	if missing = missingPackages(); len(missing) > 0 {
		return packagesMissing(missing)
	}
	return nil
}

func packagesMissing(names []string) error {
	which := "package " + names[0] + " is"
	if len(names) > 1 {
		which = "packages " + strings.Join(names, ", ") + " are"
	}
	return fmt.Errorf("%s missing: run apt-get install %s", which, strings.Join(names, " "))
}

func apt(args ...string) error {
	cmd := exec.Command("apt-get", append([]string{"-qq"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, lastLines(output, 5))
	}
	return nil
}

// check finds what was not built, before anything is started.
func (s settings) check() error {
	for _, name := range []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
		"kubelet", "kube-proxy", "kubectl",
	} {
		if _, err := os.Stat(filepath.Join(s.bin, name)); err != nil {
			return fmt.Errorf("%s is missing in %s: run hack/controlplane/build.sh cluster", name, s.bin)
		}
	}
	for _, name := range []string{"pause.tar", "coredns.tar"} {
		if _, err := os.Stat(filepath.Join(s.images, name)); err != nil {
			return fmt.Errorf("%s is missing in %s: run hack/images/build.sh cluster", name, s.images)
		}
	}
	return nil
}
