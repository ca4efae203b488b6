// Package crd has the CustomResourceDefinitions as they are installed, for programs
// that judge an object as the API server would.
package crd

import "embed"

// Files are the generated files of this folder.
//
//go:embed *.yaml
var Files embed.FS
