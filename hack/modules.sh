#!/usr/bin/env bash
# Tidies every module of this repository, or checks that each is tidy.
#
#   modules.sh tidy    go mod tidy in each; hack/tidy.sums keeps a checksum of what it read below hack
#   modules.sh check   go mod tidy -diff in each that is not what the checksum is of
#
# go mod tidy downloads all that a module needs for its tests too, which is gigabytes for Argo CD,
# and gives the same result for the same files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sums=hack/tidy.sums

modules() { git ls-files --cached --others --exclude-standard -- go.mod '*/go.mod' | xargs -n1 dirname; }

# sum MODULE prints a checksum of all that go mod tidy reads of a module, and its name.
sum() {
	git -C "$1" ls-files --cached --others --exclude-standard -z -- go.mod go.sum '*.go' | LC_ALL=C sort -z |
		(cd "$1" && xargs -0 sha256sum --) | sha256sum | sed "s|-\$|$1|"
}

failed=0
while read -r module; do
	case ${1:-} in
	tidy)
		go -C "$module" mod tidy || failed=1
		;;
	check)
		grep -qxF -e "$(sum "$module")" $sums || go -C "$module" mod tidy -diff || failed=1
		;;
	*)
		echo "modules.sh: name what to do: tidy or check" >&2
		exit 1
		;;
	esac
done < <(modules)
[ $failed = 0 ] || { echo "modules.sh: go mod tidy ended with an error" >&2; exit 1; }
[ "$1" = check ] || modules | grep '^hack/' | while read -r module; do sum "$module"; done >$sums
