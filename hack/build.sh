#!/usr/bin/env bash
# Builds commands of cmd/ as static binaries, the same bytes wherever they are built.
#
#   build.sh NAME...     writes bin/NAME from cmd/NAME
#
#   VERSION   what the binary calls itself, dev by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ $# -gt 0 ] || { echo "build.sh: name commands of cmd/: $(ls cmd | xargs)" >&2; exit 1; }
for name in "$@"; do
	CGO_ENABLED=0 go build -trimpath -tags fieldsv1string \
		-ldflags "-s -w -X main.version=${VERSION:-dev}" -o "bin/$name" "./cmd/$name"
	echo "built bin/$name"
done
