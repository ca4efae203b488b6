#!/usr/bin/env bash
# Builds the images of every platform twice, and fails unless both builds give the same bytes: once here as `make images-all`
# does, and once from a copy of the sources elsewhere, without git, by another umask, another day's files, one compiler
# process and an empty build cache. Minutes, since the second build compiles everything.
#
#   VERSION, PLATFORMS   see images.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
copy=$(mktemp -d)
# Modules in a build cache are read-only.
trap 'chmod -R u+w "$copy"; rm -rf "$copy"' EXIT

# sums prints what must be equal: the binaries, and the index of each layout, which names everything else by digest.
sums() { (cd "$1" && sha256sum bin/linux_*/{operator,runner} bin/images/{operator,runner}/index.json bin/images/*_linux_*.cdx.json); }

hack/images.sh all
git ls-files --cached --others --exclude-standard -z | xargs -0 sh -c 'for f; do [ ! -f "$f" ] || printf "%s\0" "$f"; done' sh |
	tar --create --null --files-from - | (umask 077 && mkdir "$copy/elsewhere" && tar --extract --touch --no-same-permissions --directory "$copy/elsewhere")
(
	umask 077
	cd "$copy/elsewhere"
	env --unset=GOFLAGS TZ=Pacific/Auckland LC_ALL=C GOCACHE="$copy/cache" GOMAXPROCS=1 hack/images.sh all
)
if ! diff <(sums "$root") <(sums "$copy/elsewhere"); then
	echo "verify-images: two builds of the same sources differ: diffoscope tells how" >&2
	exit 1
fi
sums "$root"
echo "verify-images: both builds gave these bytes"
