#!/usr/bin/env bash
# Builds what puts servers from Git into a cluster with Flux, from the published Go modules: source-controller and
# kustomize-controller, and what their users have beside (SOPS, age-keygen), into bin/gitops; their CRDs go to
# bin/gitops/manifests. The versions are those of the two modules beside this file. The first time takes a quarter of an hour.
#
# docs/maintainers/gitops.md says what cannot be built.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${GITOPS_BIN:-$here/../../bin/gitops}
mkdir -p "$out/manifests"
out=$(cd "$out" && pwd)

# compile MODULE NAME PACKAGE builds one static binary.
compile() {
	CGO_ENABLED=0 go -C "$here/$1" build -trimpath -buildvcs=false -ldflags "-s -w" -o "$out/$2" "$3"
}

# manifests MODULE PATH copies the CRDs that a module ships.
manifests() {
	local dir
	dir=$(go -C "$here/$1" list -m -f '{{.Dir}}' "$2")
	cp --no-preserve=mode "$dir"/config/crd/bases/*.yaml "$out/manifests"
}

compile flux kustomize-controller github.com/fluxcd/kustomize-controller
compile flux sops github.com/getsops/sops/v3/cmd/sops
compile flux age-keygen filippo.io/age/cmd/age-keygen
compile source source-controller github.com/fluxcd/source-controller
manifests flux github.com/fluxcd/kustomize-controller
manifests source github.com/fluxcd/source-controller
