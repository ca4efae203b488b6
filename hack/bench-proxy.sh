#!/usr/bin/env bash
# Measures what the proxy costs; arguments are the program's flags, -h tells them. nginx
# is measured beside it where it is installed, or NGINX names it, and bridges of others from npm where npm is installed
# and reaches its registry. The result is in bin/bench/proxy.json too.
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
npm=$PWD/bin/bench/npm
mkdir -p "$npm"
if ! cmp -s cmd/runner/internal/bench/testdata/npm/package-lock.json "$npm/installed"; then
	cp cmd/runner/internal/bench/testdata/npm/* "$npm/"
	if npm --prefix "$npm" ci --ignore-scripts --no-audit --no-fund --loglevel error >&2; then
		cp "$npm/package-lock.json" "$npm/installed"
	else
		echo "supergateway and mcp-proxy cannot be installed, so they are not measured: install npm" >&2
	fi
fi
bridges=
[ ! -f "$npm/installed" ] || bridges=$npm/node_modules
"$built/bench" -json bin/bench/proxy.json -npm "$bridges" -runner "$built/runner" -nginx "$nginx" -version "$version" "$@"
