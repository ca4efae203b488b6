#!/usr/bin/env bash
# Looks at MCP servers of others with clients of others, directly and through proxy and bridge as the operator would run them, in a network
# that has nothing but loopback; every difference that test/wild/known.go does not name fails. Arguments are the program's flags, -h tells
# them. What the clients saw is in bin/wild/seen. Needs root, or a kernel that lets others make namespaces.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$PWD/bin/wild
export CGO_ENABLED=0 GOFLAGS='-trimpath -buildvcs=false'
echo "wild.sh: installing the packages of test/wild/testdata/npm in bin/wild/npm, 800 MB; minutes the first time"
hack/npm.sh test/wild/testdata/npm "$work/npm" --ignore-scripts
cp test/conformance/testdata/npm/look.mjs "$work/npm/"
echo "wild.sh: building the servers in Go, the runner and the program"
mkdir -p "$work/go" "$work/seen"
for server in $(sed -n 's|.*from: "\(github.com/[^"]*\)".*|\1|p' test/wild/servers.go); do
	go build -o "$work/go/$(basename "$(dirname "$server")")-$(basename "$server")" "$server"
done
go build -tags fieldsv1string -ldflags '-s -w' -o "$work/runner" ./cmd/runner
go build -tags fieldsv1string -o "$work/wild" ./test/wild
user=()
[ "$(id -u)" = 0 ] || user=(--map-root-user)
# shellcheck disable=SC2016 # the inner shell's
exec unshare "${user[@]}" --net bash -c 'ip link set lo up && exec "$@"' _ \
	"$work/wild" -runner "$work/runner" -npm "$work/npm" -built "$work/go" -out "$work/seen" "$@"
