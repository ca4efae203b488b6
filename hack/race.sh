#!/usr/bin/env bash
# Runs every test under Go's race detector, and every program that tests build.
#
#   FREEHOLD_GATE_RUNS   how many random runs of runners only test/model makes, 50 by default
#   FREEHOLD_MODEL_OPS   how many random writes test/model makes, 1000 by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

compiler=$(go env CC)
command -v "${compiler%% *}" >/dev/null || {
	echo "race.sh: there is no $compiler: the race detector is linked by cgo, install gcc and libc6-dev, or what CC names" >&2
	exit 1
}
export CGO_ENABLED=1 GOFLAGS="${GOFLAGS:-} -race" FREEHOLD_GATE_RUNS=${FREEHOLD_GATE_RUNS:-50}
export FREEHOLD_MODEL_OPS=${FREEHOLD_MODEL_OPS:-1000}
# One package after the other: a race detector's memory is that of several programs.
# shellcheck disable=SC2046 # one word a package
go test -tags fieldsv1string -timeout 60m -count=1 -p 1 $(hack/packages.sh unit) $(hack/packages.sh plane) $(hack/packages.sh stories)
# What these build is for platforms that have no race detector here.
GOFLAGS=${GOFLAGS% -race} go -C hack/images test -race -timeout 60m -count=1 ./...
