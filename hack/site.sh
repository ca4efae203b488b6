#!/usr/bin/env bash
# Builds the documentation as a site in bin/site, and judges its links. To read it, open bin/site/index.html:
# it needs no server and no network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
hugo=$PWD/bin/tools/hugo
[ -x "$hugo" ] || { echo "site.sh: make bin/tools/hugo builds the program that makes the site" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A warning of Hugo is a page that somebody misses.
"$hugo" build --source hack/site --destination "$PWD/bin/site" --cleanDestinationDir --noBuildLock --cacheDir "$work" --panicOnWarning --quiet
go run ./hack/site -built bin/site -docs docs
