#!/usr/bin/env bash
# The conformance suite of MCP against one server, and clients of others with servers of others, directly and through Freehold, on
# a real cluster of this machine; every difference fails. The results are in bin/conformance/results, as text and as JSON. The cluster goes when it ends, unless
# KEEP=1 is set. Run by `make conformance`, which builds the images first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/demo-lib.sh

trap end_cluster EXIT

hack/images/node.sh image
hack/images/build.sh everything-sse
hack/cluster.sh up
cluster load bin/images/{operator,runner,everything-server,everything-sse,node}.tar
install_freehold
go test -tags fieldsv1string -c -ldflags "-s -w" -o bin/e2e.test ./test/e2e
in_cluster bin/e2e.test -test.timeout 30m -ginkgo.v -ginkgo.label-filter=conformance -ginkgo.focus="${FOCUS:-}"
