#!/usr/bin/env bash
# The end-to-end tests on a real cluster of this machine: test/e2e, of which the demo is a
# story. The cluster goes when they end, unless KEEP=1 is set. Run by `make e2e`, which builds
# the images first.
#
#   STORIES   how many stories run at once, 3 by default: each mostly waits for pods
#   FORWARD   how long connect --forward carries calls while proxies are replaced, such as 1h; once by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/demo-lib.sh
trap end_cluster EXIT

# build_tests builds what the tests need beside the demo, and nothing that installs packages: the cluster does.
build_tests() {
	# A second tag of the runner that was built, for what an upgrade does.
	go -C hack/images run . -name "freehold.dev/runner:${VERSION:-dev}-again" -binary bin/runner -archive bin/images/runner-again.tar
	hack/images/build.sh sse
	for server in notes tools; do
		CGO_ENABLED=0 GOOS=linux go build -trimpath -buildvcs=false -ldflags "-s -w" -o bin/images/rootfs/$server ./test/e2e/testdata/$server
		go -C hack/images run . -name "freehold.dev/$server:${VERSION:-dev}" -binary bin/images/rootfs/$server -archive bin/images/$server.tar
	done
	go test -tags fieldsv1string -c -ldflags "-s -w" -o bin/e2e.test ./test/e2e
	go build -o bin/tools/ginkgo github.com/onsi/ginkgo/v2/ginkgo
}

(set -e; build_tests) >bin/e2e-build.log 2>&1 &
building=$!
hack/demo.sh up
hack/images/provider.sh
wait "$building" || { cat bin/e2e-build.log >&2; exit 1; }
cluster load bin/images/{runner-again,provider,sse-server,notes,tools}.tar
in_cluster bin/tools/ginkgo run -procs="${STORIES:-3}" -timeout=40m -v -no-color -output-interceptor-mode=none \
	-label-filter='!conformance && !start' bin/e2e.test
