#!/usr/bin/env bash
# Checks everything that can be judged without a running API server. Each step says which
# target mends what it found; all steps run, so that one look shows everything. Most use one core,
# so that two rows of them run side by side. test/schema is not among them: make test-unit runs it.
#
# What is generated is generated again and compared with what stood there before, committed or
# not: it is never the commit that is judged, but whether sources and results agree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=bin/tools
tags=fieldsv1string
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
packages="./apis/... ./applyconfig/... ./controllers/... ./cmd/... ./hack/... ./test/..."
touch "$work/failed"

# step NAME MENDS COMMAND... runs one check; MENDS is what to run if it fails.
step() {
	local name=$1 mends=$2 started=$SECONDS
	shift 2
	echo "verify: $name"
	if "$@"; then
		echo "verify: $name: fine ($((SECONDS - started)) s)"
	else
		echo "verify: $name: NOT FINE ($((SECONDS - started)) s): $mends" >&2
		echo "verify: $name: $mends" >>"$work/failed"
	fi
}

# contents PATH... prints a checksum and the name of each file that git would track.
contents() {
	git ls-files --cached --others --exclude-standard -z -- "$@" |
		xargs -0 -r sh -c 'for f; do [ ! -f "$f" ] || cksum "$f"; done' sh | sort -k3
}

# unchanged COMMAND PATH... runs a command, and fails if it changed a file that it generates.
unchanged() {
	local command=$1 before after
	shift
	before=$(contents "$@")
	$command || return 1
	after=$(contents "$@")
	[ "$before" = "$after" ] || {
		diff <(echo "$before") <(echo "$after") | sed -n 's/^[<>] [0-9]* [0-9]* /  out of date: /p' | sort -u
		return 1
	}
}

step "generated files" "they have been generated anew, as make generate does: look at the diff and commit it" \
	unchanged hack/generate.sh 'apis/**/zz_generated*' applyconfig config/crd config/policy config/rbac config/chart/files docs/ownership.md docs/architecture.md docs/api.md

beside() {
	step "modules" "run make tidy" hack/modules.sh check
	step "licences" "docs/maintainers/licenses.md has been written anew: look at the diff and commit it; or do without the module" \
		unchanged "go -C hack/images run ./licenses -page docs/maintainers/licenses.md" docs/maintainers/licenses.md
	# shellcheck disable=SC2086 # one word a pattern
	step "vet" "mend what vet says" go vet -tags $tags,helm $packages
	step "site" "mend the page, or hack/site" hack/site.sh
	step "architecture" "mend what the tests say" go test -tags $tags -timeout 5m -count=1 ./test/arch
	step "alerts" "mend config/monitoring, or config/chart" \
		go -C hack/tools/alerts run . "$PWD"/config/monitoring/{alerts.yaml,dashboard.json} "$PWD"/test/chart/testdata/{everything,elsewhere}.golden.yaml
	step "alerts fire" "mend config/monitoring/alerts.yaml" go -C hack/tools/alerts test -count=1 ./...
	step "chart" "mend config/chart, or run make golden and look at the diff" \
		go test -tags $tags,helm -timeout 5m -count=1 ./test/chart
}
beside >"$work/beside" 2>&1 &
row=$!

step "format" "run make fmt" $tools/golangci-lint fmt --diff
step "lint" "mend what the linters say, or tell them why not with //nolint:NAME // reason" \
	$tools/golangci-lint run --allow-parallel-runners
step "rules" "do what the findings say: no comment silences these" hack/lint.sh
wait "$row" || echo "verify: the second row ended with code $?, see above" >>"$work/failed"
cat "$work/beside"

if [ -s "$work/failed" ]; then
	echo >&2
	cat "$work/failed" >&2
	exit 1
fi
echo "verify: everything is fine"
