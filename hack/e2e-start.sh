#!/usr/bin/env bash
# Follows the start pages with the images that they make, on a real cluster of this machine: command by command, to a tool that answers. Run
# by `make e2e-start`, which builds Freehold's images first. It needs npm. The cluster goes when it ends, unless KEEP=1 is set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/demo-lib.sh

trap end_cluster EXIT

hack/images/start.sh
hack/build.sh kubectl-freehold
hack/cluster.sh up
cluster load bin/images/{operator,runner,hello,memory}.tar
install_freehold
go test -tags fieldsv1string -c -ldflags "-s -w" -o bin/e2e.test ./test/e2e
in_cluster bin/e2e.test -test.timeout 30m -ginkgo.v -ginkgo.label-filter=start
