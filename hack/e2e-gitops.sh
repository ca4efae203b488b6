#!/usr/bin/env bash
# The story of test/gitops that needs real pods, on a real cluster of this machine: Flux and Argo CD install the operator and
# servers from Git, change them and delete them. The cluster goes when it ends, unless KEEP=1 is set. Run by `make e2e-gitops`,
# which builds the images and the tools first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/demo-lib.sh

trap end_cluster EXIT

command -v git >/dev/null || { echo "e2e-gitops: git is missing: install it" >&2; exit 1; }
title "The tools, and a cluster"
go test -tags fieldsv1string -c -o bin/gitops.test ./test/gitops
go -C hack/images run . -name "freehold.dev/everything-server:${VERSION:-dev}-again" -binary bin/images/rootfs/everything-server \
	-archive bin/images/everything-server-again.tar
hack/cluster.sh up
cluster load bin/images/{operator,runner,everything-server,everything-server-again}.tar

title "Operator and servers from Git, and away again"
GITOPS_CLUSTER=1 cluster exec -- bash -c 'cd test/gitops && exec ../../bin/gitops.test -test.timeout 12m -test.v -test.run TestCluster'
