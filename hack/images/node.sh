#!/usr/bin/env bash
# Installs what npm gives to test/conformance in bin/conformance: the conformance suite of MCP, clients and servers of others,
# and the Node that they run on, release 22. npm itself comes from the distribution where it is missing.
#
#   node.sh          installs only
#   node.sh image    also packs the servers as bin/images/node.tar, an image without an entrypoint: /node runs
#                    /node_modules/…
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
source=$root/test/conformance/testdata/npm
work=$root/bin/conformance

if ! command -v npm >/dev/null; then
	echo "node.sh: installing npm from the distribution"
	apt-get update -qq
	apt-get install -y -qq npm >/dev/null
fi
mkdir -p "$work"
cp "$source"/* "$work/"
if ! cmp -s "$work/package-lock.json" "$work/installed"; then
	npm --prefix "$work" ci --ignore-scripts --no-audit --no-fund --loglevel error
fi
cp "$work/package-lock.json" "$work/installed"
