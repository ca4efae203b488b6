#!/usr/bin/env bash
# Fuzzes every Fuzz function of the repository for FUZZTIME, one after the other. What was found
# stands in the package's testdata/fuzz, where go test runs it from then on: mend the code and
# commit both.
#
#   fuzz.sh [PATTERN]    only the functions whose name fits the extended regular expression
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
time=${FUZZTIME:-1m}
pattern=${1:-.}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=()

# fuzz PACKAGE NAME runs one function. One worker, so that a machine can do something else.
fuzz() {
	echo "fuzz: $2 in $1 for $time"
	if go test -tags fieldsv1string -run='^$' -fuzz="^$2\$" -fuzztime="$time" -fuzzminimizetime=1s -parallel=1 "./$1" |
		tee "$log" | tail -n 15; then
		return
	fi
	# Go says this, and fails, where the time is up while it shortens an input
	# (https://github.com/golang/go/issues/75804). A finding says more.
	if grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input' "$log"; then
		return
	fi
	failed+=("$2 in $1")
}

while IFS=: read -r file line; do
	name=$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' <<<"$line")
	if grep -qE -- "$pattern" <<<"$name"; then
		fuzz "$(dirname "$file")" "$name"
	fi
done < <(grep -rE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*\(' apis controllers cmd hack test | sort)

if [ ${#failed[@]} -gt 0 ]; then
	printf 'fuzz: found something: %s\n' "${failed[@]}" >&2
	exit 1
fi
echo "fuzz: nothing was found"
