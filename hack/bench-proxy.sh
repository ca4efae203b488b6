#!/usr/bin/env bash
# Measures what the proxy costs; arguments are the program's flags, -h tells them. nginx
# is measured beside it where it is installed, or NGINX names it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
export CGO_ENABLED=0 GOFLAGS='-trimpath -buildvcs=false'
go build -tags fieldsv1string -o "$built/bench" ./cmd/runner/internal/bench
go build -tags fieldsv1string -ldflags '-s -w' -o "$built/runner" ./cmd/runner
version=$(git describe --always --dirty 2>/dev/null || echo unknown)
nginx=${NGINX:-$(command -v nginx || true)}
[ -n "$nginx" ] || echo "nginx is not installed, so it is not measured: apt-get install nginx-light, or set NGINX" >&2
"$built/bench" -runner "$built/runner" -nginx "$nginx" -version "$version" "$@"
