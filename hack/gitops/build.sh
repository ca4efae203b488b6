#!/usr/bin/env bash
# Builds what puts servers from Git into a cluster, from the published Go modules, into bin/gitops.
#
#   build.sh [flux|argo|others]...     all by default
#
#   flux   source-controller and kustomize-controller, and what their users have beside: SOPS, age-keygen
#   argo   Argo CD's one program, and what it calls: Kustomize, its script around git, a cache with Redis' protocol
#   others the kinds of Flux's image automation and helm-controller and of the External Secrets Operator, without their programs
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

# others makes the CRDs of Flux's image automation and helm-controller from their published types, as Flux does, and copies those of the
# External Secrets Operator, whose types are no module of their own.
others() {
	local generate version=v1.3.2 dir
	generate=$(realpath "$here/../../bin/tools/controller-gen") # make test-gitops builds it
	rm -rf "$out/manifests/images" "$out/manifests/secrets"
	mkdir -p "$out/manifests/images" "$out/manifests/secrets"
	(cd "$here/images" && "$generate" crd output:crd:dir="$out/manifests/images" \
		paths=github.com/fluxcd/image-automation-controller/api/v1 paths=github.com/fluxcd/image-reflector-controller/api/v1 \
		paths=github.com/fluxcd/helm-controller/api/v2)
	go -C "$here/images" mod download "github.com/external-secrets/external-secrets@$version"
	dir=$(go env GOMODCACHE)/github.com/external-secrets/external-secrets@$version/config/crds/bases
	cp --no-preserve=mode "$dir/external-secrets.io_externalsecrets.yaml" "$out/manifests/secrets"
}

[ $# -gt 0 ] || set -- flux argo others
for tool in "$@"; do
	case $tool in
	flux | argo | others) "$tool" ;;
	*)
		echo "build.sh: there is no $tool: name flux, argo or others" >&2
		exit 1
		;;
	esac
done
