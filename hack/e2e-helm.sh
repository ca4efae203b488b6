#!/usr/bin/env bash
# The story of test/e2e that installs, upgrades, rolls back, uninstalls and installs the chart again while clients call, on a real
# cluster of this machine: with Helm 4 and with Helm 3, and beginning with an earlier release if there is one. The cluster goes
# when it ends, unless KEEP=1 is set. Run by `make e2e-helm`, which builds the images and both Helms first.
#
#   FROM    the tag or commit of the earlier release: the last tag by default, and none where there is no tag
#   HELMS   the programs: both by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/demo-lib.sh
trap end_cluster EXIT

archives=(bin/images/{operator,runner,runner-again,everything-server}.tar)
FROM=${FROM-$(git describe --tags --abbrev=0 2>/dev/null || true)}
if [ -n "$FROM" ]; then
	title "The release of before: $FROM"
	rm -rf bin/from
	mkdir -p bin/from/bin
	git archive "$FROM" | tar -x -C bin/from
	GOOS=linux VERSION=from bin/from/hack/build.sh operator runner
	for name in operator runner; do
		go -C hack/images run . -name "freehold.dev/$name:from" -binary "bin/from/bin/$name" -file /etc/ssl/certs/ca-certificates.crt=bin/roots.pem \
			-archive "bin/images/$name-from.tar"
	done
	archives+=(bin/images/{operator,runner}-from.tar)
	export FROM_CHART=bin/from/config/chart
fi
go -C hack/images run . -name "freehold.dev/runner:${VERSION:-dev}-again" -binary bin/runner -archive bin/images/runner-again.tar
go test -tags fieldsv1string -c -ldflags "-s -w" -o bin/e2e.test ./test/e2e
hack/cluster.sh up
cluster load "${archives[@]}"
for helm in ${HELMS:-bin/tools/helm bin/tools/helm3/helm}; do
	title "Install, upgrade, roll back, uninstall, install again: $("$helm" version --short)"
	k delete namespace freehold-system --ignore-not-found >/dev/null
	k create namespace freehold-system >/dev/null
	HELM=$helm in_cluster bin/e2e.test -test.timeout 20m -ginkgo.v -ginkgo.focus='the release is upgraded'
	in_cluster "$helm" uninstall freehold --namespace freehold-system --wait >/dev/null
done
