#!/usr/bin/env bash
# Makes everything that a release has, in bin/release/VERSION, and pushes images and chart where REGISTRY says:
#
#   freehold-N.tgz                    the chart, whose images are pinned by digest
#   install.yaml                      all that the chart installs by default, for kubectl apply --server-side -f
#   kubectl-freehold_OS_ARCH.tar.gz   the plugin of kubectl; freehold.yaml is its manifest for krew
#   NAME_OS_ARCH.cdx.json             what each image is made of (SBOM)
#   images.txt                        images and chart by digest
#   provenance.intoto.json            from which commit, with which Go, unsigned: the workflow attests the same files
#   notes.md                          the commits since the last tag
#   SHA256SUMS
#
# The same commit gives the same bytes and digests, wherever it is built with the same Go.
#
#   VERSION     the tag of the release, such as v1.2.3
#   REGISTRY    where images and chart are pushed, such as registry.example.com/freehold; without it nothing is pushed, and the
#               chart names images of freehold.dev, which nobody serves
#   URL         where krew is to find the plugin's archives, see plugin.sh
#   PLATFORMS   of the images: linux/amd64 linux/arm64 by default
#   PLUGINS     platforms of the plugin, all by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ ${VERSION:-} =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || {
	echo "release.sh: VERSION is ${VERSION:-not set}: write the tag of the release, for example VERSION=v1.2.3" >&2
	exit 1
}
export VERSION
registry=${REGISTRY:-freehold.dev}
out=bin/release/$VERSION
number=${VERSION#v}
helm=$PWD/bin/tools/helm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -x "$helm" ] || { echo "release.sh: make bin/tools/helm builds the program that packs the chart" >&2; exit 1; }
rm -rf "$out"
mkdir -p "$out"

# pack FOLDER FILE makes a tar with gzip of a folder: names in order, no times, no owners, one umask.
pack() {
	tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' -C "$(dirname "$1")" -cf - "$(basename "$1")" | gzip -n >"$2"
}

# digest NAME is that of the index in an image's layout.
digest() {
	tr -d ' \n' <"bin/images/$1/index.json" |
		sed -n 's/.*"mediaType":"application\/vnd.oci.image.index.v1+json","size":[0-9]*,"digest":"\(sha256:[0-9a-f]*\)".*/\1/p'
}

images() {
	local name
	hack/images.sh all
	for name in operator runner; do
		[ -n "$(digest $name)" ] || { echo "release.sh: bin/images/$name/index.json names no index" >&2; return 1; }
		echo "$registry/$name@$(digest $name)" >>"$out/images.txt"
		[ -z "${REGISTRY:-}" ] || go -C hack/images run ./push -to "$registry/$name:$VERSION" -layout "$PWD/bin/images/$name"
	done
	for platform in ${PLATFORMS:-linux/amd64 linux/arm64}; do
		cp bin/images/{operator,runner}_"${platform/\//_}".cdx.json "$out"
	done
}

# chart pins the images in the values, so that what was tested is what runs.
chart() {
	local name
	cp -r config/chart "$work/freehold"
	for name in operator runner; do
		sed -i "/repository: freehold.dev\/$name\$/,/digest:/{s|repository: .*|repository: $registry/$name|;s|digest: .*|digest: $(digest $name)|}" "$work/freehold/values.yaml"
		grep -q "digest: $(digest $name)" "$work/freehold/values.yaml"
	done
	sed -i "s/^version: .*/version: $number/; s/^appVersion: .*/appVersion: $VERSION/" "$work/freehold/Chart.yaml"
	"$helm" lint --strict --quiet "$work/freehold"
	pack "$work/freehold" "$out/freehold-$number.tgz"
	if [ -n "${REGISTRY:-}" ]; then
		# A tag has no +.
		go -C hack/images run ./push -to "$registry/charts/freehold:${number//+/_}" -chart "$PWD/$out/freehold-$number.tgz" | tee -a "$out/images.txt"
	fi
	hack/manifest.sh "$out/freehold-$number.tgz" "$VERSION" >"$out/install.yaml"
}

plugin() {
	PLATFORMS=${PLUGINS:-} hack/plugin.sh
	cp bin/plugin/* "$out"
}

# notes lists the commits since the last tag, by the part that each is about.
notes() {
	local last range=HEAD
	last=$(git describe --tags --abbrev=0 --match 'v*' --exclude "$VERSION" 2>/dev/null || true)
	[ -z "$last" ] || range=$last..HEAD
	printf '# %s\n\nChanges%s, by the part of Freehold that they are about. CHANGELOG.md has those that a user notices.\n\n' \
		"$VERSION" "${last:+ since $last}"
	git log --no-merges --format='%s' "$range" | LC_ALL=C sort -t: -k1,1 -s | sed 's/^/- /'
}

provenance() {
	local files=""
	while read -r sum name; do
		files+="${files:+,}{\"name\":\"$name\",\"digest\":{\"sha256\":\"$sum\"}}"
	done < <(sums)
	cat <<-END
		{"_type":"https://in-toto.io/Statement/v1","subject":[$files],
		"predicateType":"https://slsa.dev/provenance/v1","predicate":{"buildDefinition":{
		"buildType":"https://github.com/freehold-dev/freehold/blob/main/hack/release.sh",
		"externalParameters":{"version":"$VERSION","registry":"$registry","platforms":"${PLATFORMS:-linux/amd64 linux/arm64}"},
		"resolvedDependencies":[{"uri":"git+https://github.com/freehold-dev/freehold@refs/tags/$VERSION","digest":{"gitCommit":"$(git rev-parse HEAD)"}},
		{"name":"$(go env GOVERSION)"}]},"runDetails":{"builder":{"id":"https://github.com/freehold-dev/freehold/blob/main/hack/release.sh"}}}}
	END
}

sums() { (cd "$out" && find . -type f ! -name SHA256SUMS ! -name provenance.intoto.json -printf '%P\n' | LC_ALL=C sort | xargs sha256sum); }

images
chart
plugin
notes >"$out/notes.md"
provenance >"$out/provenance.intoto.json"
(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
echo "$out has $VERSION:"
ls "$out"
