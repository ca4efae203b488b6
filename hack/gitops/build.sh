#!/usr/bin/env bash
# Builds what puts servers from Git into a cluster, from the published Go modules, into bin/gitops.
#
#   build.sh [flux|argo]...     both by default
#
#   flux   source-controller and kustomize-controller, and what their users have beside: SOPS, age-keygen
#   argo   Argo CD's one program, and what it calls: Kustomize, its script around git, a cache with Redis' protocol
#
# Their CRDs and settings go to bin/gitops/manifests. The versions are those of the modules beside this
# file. The first time takes minutes for each tool, Go's build cache makes later ones seconds.
#
# docs/maintainers/gitops.md says what cannot be built.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${GITOPS_BIN:-$here/../../bin/gitops}
mkdir -p "$out"
out=$(cd "$out" && pwd)

# compile MODULE NAME PACKAGE builds one static binary.
compile() {
	local began=$SECONDS
	echo "building $2 of hack/gitops/$1"
	CGO_ENABLED=0 go -C "$here/$1" build -trimpath -buildvcs=false -ldflags "-s -w" -o "$out/$2" "$3"
	echo "built    $2 in $((SECONDS - began)) s"
}

# manifests MODULE PATH FOLDER copies what a folder of a module ships, for kubectl to apply.
manifests() {
	local dir
	dir=$(go -C "$here/$1" list -m -f '{{.Dir}}' "$2")
	mkdir -p "$out/manifests/$1"
	cp --no-preserve=mode "$dir/$3"/*.yaml "$out/manifests/$1"
	rm -f "$out/manifests/$1/kustomization.yaml"
}

flux() {
	compile flux kustomize-controller github.com/fluxcd/kustomize-controller
	compile flux sops github.com/getsops/sops/v3/cmd/sops
	compile flux age-keygen filippo.io/age/cmd/age-keygen
	compile source source-controller github.com/fluxcd/source-controller
	manifests flux github.com/fluxcd/kustomize-controller config/crd/bases
	manifests source github.com/fluxcd/source-controller config/crd/bases
}

argo() {
	compile argo kustomize sigs.k8s.io/kustomize/kustomize/v5
	compile argo redis ./redis
	compile argo argocd github.com/argoproj/argo-cd/v3/cmd
	manifests argo github.com/argoproj/argo-cd/v3 manifests/crds
	manifests argo github.com/argoproj/argo-cd/v3 manifests/base/config
	install -m 755 "$(go -C "$here/argo" list -m -f '{{.Dir}}' github.com/argoproj/argo-cd/v3)/hack/git-verify-wrapper.sh" "$out"
}

[ $# -gt 0 ] || set -- flux argo
for tool in "$@"; do
	case $tool in
	flux | argo) "$tool" ;;
	*)
		echo "build.sh: there is no $tool: name flux or argo" >&2
		exit 1
		;;
	esac
done
