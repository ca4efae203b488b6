#!/usr/bin/env bash
# Runs a command in the folder of every module of this repository.
#
#   modules.sh go mod tidy
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

failed=0
while read -r file; do
	cd "$root/$(dirname "$file")"
	"$@" || { echo "modules.sh: \`$*\` ended with an error in $(dirname "$file")" >&2; failed=1; }
done < <(cd "$root" && git ls-files --cached --others --exclude-standard -- go.mod '*/go.mod')
exit $failed
