#!/usr/bin/env bash
# Measures the core in process: what the writer and a whole pass cost where
# nothing is to be written. Arguments go to `go test`. Prints benchstat's
# summary; what it read stays in bin/bench/core.txt, and as JSON in core.json.
#
#   bench-core.sh -count 10
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export GOFLAGS='-trimpath -buildvcs=false'
out=bin/bench
mkdir -p $out

packages=$(grep -rl --include='*_test.go' '^func Benchmark' apis controllers | xargs -n1 dirname | sort -u | sed 's|^|./|')
{
	echo "go: $(go env GOVERSION)"
	echo "cores: $(nproc)"
	# shellcheck disable=SC2086 # one word a package
	go test -tags fieldsv1string -run '^$' -bench . -count 6 "$@" $packages
} | tee $out/core.txt >&2
go tool test2json <$out/core.txt >$out/core.json
bin/tools/benchstat $out/core.txt | tee $out/core.stat.txt
