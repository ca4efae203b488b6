#!/usr/bin/env bash
# Measures what memory the proxy takes under attacks, each alone and all at once, under the default limit of its container, which the kernel
# holds too where root is allowed to have it do so. Arguments are the program's flags, -h tells them. The result is in
# bin/bench/memory.json too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
export CGO_ENABLED=0 GOFLAGS='-trimpath -buildvcs=false'
go build -tags fieldsv1string -o "$built/attack" ./cmd/runner/internal/attack
go build -tags fieldsv1string -ldflags '-s -w' -o "$built/runner" ./cmd/runner
mkdir -p bin/bench
ulimit -n "$(ulimit -Hn)"
version=$(git describe --always --dirty 2>/dev/null || echo unknown)
"$built/attack" -json bin/bench/memory.json -runner "$built/runner" -version "$version" "$@"
