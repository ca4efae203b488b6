package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const (
	sbomSuffix    = ".cdx.json"
	sbomMediaType = "application/vnd.cyclonedx+json"
)

// sbomOf lists in CycloneDX what a Go binary says that it was linked from. It has no time and no random serial number,
// so that the same binary has the same list.
func sbomOf(binary []byte, version string, licenses map[string]string) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(binary)
	main := component(cdx.ComponentTypeApplication, info.Main.Path, version)
	if command := strings.TrimPrefix(info.Path, info.Main.Path+"/"); command != info.Path {
		main.PackageURL += "#" + command
	}
	main.BOMRef = main.PackageURL
	main.Hashes = sha(sum[:])
	main.Properties = settings(info)

	components := []cdx.Component{component(cdx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		c := component(cdx.ComponentTypeLibrary, module.Path, module.Version)
		if c.Hashes, err = moduleSum(module.Sum); err != nil {
			return nil, fmt.Errorf("%s: %w", module.Path, err)
		}
		if licenses != nil {
			license, known := licenses[module.Path]
			if !known {
				return nil, fmt.Errorf("%s is linked, and no licence of it is listed: run make licenses", module.Path)
			}
			c.Licenses = &cdx.Licenses{{Expression: license}}
		}
		components = append(components, c)
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.PackageURL, b.PackageURL) })
	refs := make([]string, 0, len(components))
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}

	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &components
	// The binary does not say which module needs which.
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	err = cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return out.Bytes(), err
}

// component is a Go module with its package URL.
// https://github.com/package-url/purl-spec/blob/main/types-doc/golang-definition.md
func component(kind cdx.ComponentType, path, version string) cdx.Component {
	purl := "pkg:golang/" + path
	if version != "" {
		purl += "@" + url.QueryEscape(version)
	}
	return cdx.Component{BOMRef: purl, Type: kind, Name: path, Version: version, PackageURL: purl}
}

// moduleSum is the hash of go.sum, which is the SHA-256 of a list of the hashes of all files of the module.
// https://go.dev/ref/mod#go-sum-files
func moduleSum(sum string) (*[]cdx.Hash, error) {
	encoded, found := strings.CutPrefix(sum, "h1:")
	if !found {
		return nil, nil
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("reading the checksum %q: %w", sum, err)
	}
	return sha(raw), nil
}

func sha(sum []byte) *[]cdx.Hash {
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
}

// aLicense is a line of docs/maintainers/licenses.md: | `module` | version | licence | in |
var aLicense = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| \\S+ \\| ([^|]+) \\|")

// readLicenses reads SPDX expressions by module.
func readLicenses(path string) (map[string]string, error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, line := range aLicense.FindAllSubmatch(page, -1) {
		found[string(line[1])] = string(line[2])
	}
	return found, nil
}

// settings are the flags and the platform that the binary was built with.
func settings(info *debug.BuildInfo) *[]cdx.Property {
	properties := []cdx.Property{}
	for _, s := range info.Settings {
		properties = append(properties, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	return &properties
}
