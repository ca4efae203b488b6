#!/usr/bin/env bash
# Has clients of others meet each refusal of the runner's own program, and run what the plugin prints, in a network that has nothing but
# loopback, and compares what they print with docs/maintainers/clients.md; -update writes the page. Needs root, or a kernel that lets others make namespaces.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$PWD/bin/clients
export CGO_ENABLED=0 GOFLAGS='-trimpath -buildvcs=false' FREEHOLD_CLIENTS=$work/npm FREEHOLD_PLUGIN=$work/kubectl-freehold
echo "clients.sh: installing the packages of cmd/runner/testdata/clients in bin/clients/npm, 1.5 GB; minutes the first time"
hack/npm.sh cmd/runner/testdata/clients "$work/npm" --ignore-scripts
go build -o "$FREEHOLD_PLUGIN" ./cmd/kubectl-freehold
go test -tags fieldsv1string,clients -c -o "$work/runner.test" ./cmd/runner
user=()
[ "$(id -u)" = 0 ] || user=(--map-root-user)
cd cmd/runner
# shellcheck disable=SC2016 # the inner shell's
exec unshare "${user[@]}" --net bash -c 'ip link set lo up && exec "$@"' _ \
	"$work/runner.test" -test.timeout 30m -test.v -test.run 'AsClients(Show|Run)It' "$@"
