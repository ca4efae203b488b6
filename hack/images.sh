#!/usr/bin/env bash
# Builds operator and runner for Linux and packs them as images, without a container engine. Each image carries the licences
# of what it is made of, the runner's also the root certificates of the public web, and has a bill of materials beside it.
#
#   images.sh        archives for this machine's platform, bin/images/NAME.tar, which `docker load`, `kind load image-archive`
#                    and `hack/cluster.sh load` take alike; also of the demo's server
#   images.sh all    OCI image layouts for every platform, bin/images/NAME, which `oras cp --recursive --from-oci-layout` pushes
#                    with their bills of materials
#
#   VERSION     the tag of the images, dev by default
#   PLATFORMS   of `all`: linux/amd64 linux/arm64 by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=${VERSION:-dev}
names=(operator runner)

# pack NAME FLAG... makes one image.
pack() {
	local name=$1
	shift
	# Proxies ask providers of logins on the public web for their keys.
	[ "$name" != runner ] || set -- -file /etc/ssl/certs/ca-certificates.crt=bin/roots.pem "$@"
	go -C hack/images run . -name "freehold.dev/$name:$version" -licenses docs/maintainers/licenses.md \
		-file /licenses/LICENSE=LICENSE -file /licenses/THIRD_PARTY=bin/licenses/THIRD_PARTY "$@"
}

archives() {
	GOOS=linux hack/build.sh "${names[@]}"
	for name in "${names[@]}"; do
		pack "$name" -binary "bin/$name" -archive "bin/images/$name.tar"
		echo "bin/images/$name.tar is freehold.dev/$name:$version"
	done
	hack/images/build.sh everything
}

layouts() {
	local platform folder folders=()
	for platform in ${PLATFORMS:-linux/amd64 linux/arm64}; do
		folder=bin/${platform/\//_}
		GOOS=${platform%/*} GOARCH=${platform#*/} OUT=$folder hack/build.sh "${names[@]}"
		folders+=("$folder")
	done
	for name in "${names[@]}"; do
		# shellcheck disable=SC2046 # one word each
		pack "$name" $(printf -- "-binary %s/$name " "${folders[@]}") -layout "bin/images/$name"
		echo "bin/images/$name is freehold.dev/$name:$version"
	done
}

go -C hack/images run ./licenses -texts bin/licenses/THIRD_PARTY
go -C hack/images run ./roots >bin/roots.pem
case ${1:-} in
'') archives ;;
all) layouts ;;
*) echo "images.sh: $1 is nothing to make: all, or nothing" >&2; exit 1 ;;
esac
