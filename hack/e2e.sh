#!/usr/bin/env bash
# The end-to-end tests on a real cluster of this machine: first the demo, which
# asserts as it goes, then test/e2e. The cluster goes when they end, unless
# KEEP=1 is set. Run by `make e2e`, which builds the images first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/demo-lib.sh
trap end_cluster EXIT

# build_tests builds what the tests need beside the demo, and nothing that installs packages: the demo does.
build_tests() {
	# A second tag of the runner that was built, for what an upgrade does.
	go -C hack/images run . -name "freehold.dev/runner:${VERSION:-dev}-again" -binary bin/runner -archive bin/images/runner-again.tar
	hack/images/build.sh sse
	CGO_ENABLED=0 GOOS=linux go build -trimpath -buildvcs=false -ldflags "-s -w" -o bin/images/rootfs/notes ./test/e2e/testdata/notes
	go -C hack/images run . -name "freehold.dev/notes:${VERSION:-dev}" -binary bin/images/rootfs/notes -archive bin/images/notes.tar
	go test -tags fieldsv1string -c -o bin/e2e.test ./test/e2e
}

# The demo mostly waits for pods.
(set -e; build_tests) >bin/e2e-build.log 2>&1 &
building=$!
hack/demo.sh
wait "$building" || { cat bin/e2e-build.log >&2; exit 1; }
hack/images/provider.sh
bin/tools/cluster load bin/images/{runner-again,provider,sse-server,notes}.tar
bin/tools/cluster exec -- bin/e2e.test -test.timeout 40m -ginkgo.v -ginkgo.no-color -ginkgo.label-filter='!conformance'
