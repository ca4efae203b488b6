#!/usr/bin/env bash
# Builds commands of cmd/ as static binaries, the same bytes wherever they are built with the same Go.
#
#   build.sh NAME...     writes bin/NAME from cmd/NAME
#
#   VERSION        what the binary calls itself, dev by default
#   OUT            another folder than bin
#   GOOS, GOARCH   another platform than this machine's
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${OUT:-bin}

[ $# -gt 0 ] || { echo "build.sh: name commands of cmd/: $(ls cmd | xargs)" >&2; exit 1; }
for name in "$@"; do
	# Without -buildvcs=false a copy without .git would differ.
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags fieldsv1string \
		-ldflags "-s -w -X main.version=${VERSION:-dev}" -o "$out/$name" "./cmd/$name"
	echo "built $out/$name"
done
