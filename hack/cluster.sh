#!/usr/bin/env bash
# Builds the program in hack/cluster, what it starts, and runs it. Without arguments it tells
# its commands.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go build -trimpath -buildvcs=false -o bin/tools/cluster ./hack/cluster
if [ "${1:-}" = up ]; then
	# Said before the minutes of building, not after.
	if [ "$(uname -s)" = Linux ] && [ "$(id -u)" != 0 ] && ! command -v kind >/dev/null; then
		echo "cluster.sh: needs root, for the namespaces, mounts and cgroups of the cluster: run sudo make cluster or" >&2
		echo "sudo make demo. Without root, make cluster needs kind and a container engine." >&2
		exit 1
	fi
	hack/controlplane/build.sh cluster
	hack/images/build.sh cluster
fi
exec bin/tools/cluster "$@"
