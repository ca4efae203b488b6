package main

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed config
var configs embed.FS

var templates = template.Must(template.New("").Option("missingkey=error").ParseFS(configs, "config/*"))

// values are what the configuration files are filled with.
func (s settings) values() map[string]string {
	return map[string]string{
		"Dir":          s.dir,
		"CNIPlugins":   cniPlugins(),
		"Cgroup":       s.cgroup(),
		"NodeName":     nodeName,
		"NodeAddress":  nodeAddress,
		"PodRange":     podRange,
		"DNSService":   dnsService,
		"PauseImage":   pauseImage,
		"CoreDNSImage": coreDNSImage,
	}
}

// write fills the template config/<name> into a file below the cluster's folder.
func (s settings) write(name, path string, mode os.FileMode) error {
	return s.fill(name, path, mode, s.values())
}

func (s settings) fill(name, path string, mode os.FileMode, values map[string]string) error {
	var content bytes.Buffer
	if err := templates.ExecuteTemplate(&content, name, values); err != nil {
		return fmt.Errorf("filling %s: %w", name, err)
	}
	path = s.path(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content.Bytes(), mode)
}

// cniPlugins is where the distribution puts the network plugins: Debian in the first place,
// the plugins' own releases in the second.
func cniPlugins() string {
	for _, dir := range []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"} {
		if _, err := os.Stat(filepath.Join(dir, "ptp")); err == nil {
			return dir
		}
	}
	return "/usr/lib/cni"
}
