// Package images names the kinds of Flux's image automation and of its helm-controller, for build.sh in the folder
// above: it makes their CRDs of them, as Flux does.
package images

import (
	_ "github.com/fluxcd/helm-controller/api/v2"
	_ "github.com/fluxcd/image-automation-controller/api/v1"
	_ "github.com/fluxcd/image-reflector-controller/api/v1"
)
