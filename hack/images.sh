#!/usr/bin/env bash
# Builds operator and runner for Linux and packs them as images, without a container engine: archives in bin/images,
# which `docker load`, `kind load image-archive` and `hack/cluster.sh load` take alike.
#
#   VERSION   the tag of the images, dev by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=${VERSION:-dev}

GOOS=linux hack/build.sh operator runner
for name in operator runner; do
	go -C hack/images run . -name "freehold.dev/$name:$version" -binary "bin/$name" \
		-arch "$(go env GOARCH)" -out "bin/images/$name.tar"
	echo "bin/images/$name.tar is freehold.dev/$name:$version"
done
hack/images/build.sh everything
