#!/usr/bin/env bash
# Builds the images and clients that are not Freehold's own, from pinned Go modules.
#
#   build.sh cluster         bin/images/pause.tar and coredns.tar, which hack/cluster starts with
#   build.sh everything      bin/images/everything-server.tar, a real MCP server
#   build.sh sse             bin/images/sse-server.tar, one that speaks the deprecated HTTP+SSE
#   build.sh everything-sse  bin/images/everything-sse.tar, the first with the transport of the second
#   build.sh clients         bin/tools/loadtest and simple_client: MCP clients
#
#   VERSION       tag of the everything-server image, dev by default
#   K8S_VERSION   whose coredns to pack, see hack/controlplane/build.sh
#
# The same sources give the same bytes, so building again changes nothing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$root/bin/images

fail() { echo "build.sh: $*" >&2; exit 1; }

# compile MODULE-FOLDER PACKAGE OUTPUT builds one static binary.
compile() {
	CGO_ENABLED=0 go -C "$1" build -trimpath -ldflags "-s -w" -o "$3" "$2"
}

# pack NAME:TAG BINARY makes the image of a binary.
pack() {
	go -C "$here" run . -name "freehold.dev/$1" -binary "$2" -archive "$work/${1%%:*}.tar"
	echo "$work/${1%%:*}.tar is freehold.dev/$1"
}

images_of_cluster() {
	local built
	built=$("$root/hack/controlplane/build.sh" coredns | tail -1)
	GOOS=linux compile "$here" ./pause "$work/rootfs/pause"
	pack pause:dev "$work/rootfs/pause"
	pack coredns:dev "$built/coredns"
}

image_of_everything() {
	GOOS=linux compile "$here/everything" github.com/modelcontextprotocol/go-sdk/conformance/everything-server \
		"$work/rootfs/everything-server"
	pack "everything-server:${VERSION:-dev}" "$work/rootfs/everything-server"
}

image_of_sse() {
	GOOS=linux compile "$here/everything" github.com/modelcontextprotocol/go-sdk/examples/server/sse "$work/rootfs/sse-server"
	pack "sse-server:${VERSION:-dev}" "$work/rootfs/sse-server"
}

# The everything-server with one line of its own changed: the handler, which is of the same SDK.
image_of_everything_sse() {
	local sdk source=$work/everything-sse.go
	sdk=$(go -C "$here/everything" list -m -f '{{.Dir}}' github.com/modelcontextprotocol/go-sdk)
	mkdir -p "$work"
	sed -e 's/mcp\.NewStreamableHTTPHandler(/mcp.NewSSEHandler(/' -e 's/&mcp\.StreamableHTTPOptions{Stateless: \*stateless}/nil/' \
		"$sdk/conformance/everything-server/main.go" >"$source"
	grep -q 'mcp\.NewSSEHandler(' "$source" || fail "the everything-server no longer makes its handler by mcp.NewStreamableHTTPHandler"
	GOOS=linux compile "$here/everything" "$source" "$work/rootfs/everything-sse"
	rm "$source" # go mod tidy reads it where it lies
	pack "everything-sse:${VERSION:-dev}" "$work/rootfs/everything-sse"
}

clients() {
	compile "$here/everything" github.com/modelcontextprotocol/go-sdk/examples/client/loadtest "$root/bin/tools/loadtest"
	compile "$here/everything" github.com/mark3labs/mcp-go/examples/simple_client "$root/bin/tools/simple_client"
	echo "$root/bin/tools has loadtest and simple_client"
}

[ $# -gt 0 ] || fail "name what to build: cluster, everything, sse, everything-sse, clients"
for what in "$@"; do
	case $what in
	cluster) images_of_cluster ;;
	everything) image_of_everything ;;
	sse) image_of_sse ;;
	everything-sse) image_of_everything_sse ;;
	clients) clients ;;
	*) fail "nothing is called $what; there are cluster, everything, sse, everything-sse, clients" ;;
	esac
done
