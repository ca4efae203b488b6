#!/usr/bin/env bash
# Builds the program in hack/cluster, what it starts, and runs it. Without arguments it tells
# its commands.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go build -trimpath -o bin/tools/cluster ./hack/cluster
if [ "${1:-}" = up ]; then
	hack/controlplane/build.sh cluster
	hack/images/build.sh cluster
fi
exec bin/tools/cluster "$@"
