#!/usr/bin/env bash
# Packs the binaries in bin/ as images, without a container engine: archives in bin/images,
# which `docker load`, `kind load image-archive` and `hack/cluster.sh load` take alike.
#
#   VERSION   the tag of the images, dev by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=${VERSION:-dev}

for name in operator runner; do
	[ -x "bin/$name" ] || { echo "images.sh: bin/$name is missing: run make build" >&2; exit 1; }
	go -C hack/images run . -name "freehold.dev/$name:$version" -binary "bin/$name" \
		-arch "$(go env GOARCH)" -out "bin/images/$name.tar"
	echo "bin/images/$name.tar is freehold.dev/$name:$version"
done
hack/images/build.sh everything
