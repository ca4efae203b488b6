#!/usr/bin/env bash
# Makes a release of HEAD twice, from clones in different folders, with another umask, time zone and language, pushes each to an
# empty registry on the loopback interface, and fails unless all files are equal, among them the one that names what was pushed
# by digest. Then it takes the chart out of the registry as a user does, and looks whether the images that it names are there,
# each with its bill of materials.
#
#   PLATFORMS, PLUGINS   see release.sh; by default this machine's
#   ADDRESS              of the registry, 127.0.0.1:5055 by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
here=linux/$(go env GOARCH)
export VERSION=v0.0.1-verify PLATFORMS=${PLATFORMS:-$here} PLUGINS=${PLUGINS:-$here}
address=${ADDRESS:-127.0.0.1:5055}
export REGISTRY=$address/freehold
work=$(mktemp -d)
server=""
stop() { [ -z "$server" ] || { kill "$server" && wait "$server" || true; } 2>/dev/null; server=""; }
trap 'stop; rm -rf "$work"' EXIT

go -C hack/images build -o "$work/registry" ./registry

# release NAME makes a release in a clone, with an empty registry.
release() {
	stop
	"$work/registry" "$address" &
	server=$!
	git clone --quiet "$root" "$work/$1/freehold"
	mkdir -p "$work/$1/freehold/bin"
	ln -s "$root/bin/tools" "$work/$1/freehold/bin/tools"
	if ! "${@:2}" "$work/$1/freehold/hack/release.sh" >"$work/$1.log" 2>&1; then
		cat "$work/$1.log" >&2
		echo "verify-release: no release was made, see above" >&2
		exit 1
	fi
	mv "$work/$1/freehold/bin/release/$VERSION" "$work/$1/release"
}

release first
umask 077
release second env TZ=Pacific/Auckland LC_ALL=C GOMAXPROCS=1
if ! diff -r "$work/first/release" "$work/second/release"; then
	echo "verify-release: two releases of the same commit differ: diffoscope tells how" >&2
	exit 1
fi
cd "$work/second/release"
sha256sum --check --quiet SHA256SUMS

# What a user does.
export HOME=$work/home HELM_CACHE_HOME=$work/home HELM_CONFIG_HOME=$work/home HELM_DATA_HOME=$work/home
number=${VERSION#v}
mkdir -p "$work/home" "$work/pulled"
"$root/bin/tools/helm" pull "oci://$REGISTRY/charts/freehold" --version "$number" --plain-http --destination "$work/pulled" >/dev/null
cmp "$work/pulled/freehold-$number.tgz" "freehold-$number.tgz"
"$root/bin/tools/helm" template freehold "$work/pulled/freehold-$number.tgz" --namespace freehold-system |
	diff - <(sed '1,/^  name: freehold-system$/d' install.yaml)

get() { curl --silent --show-error --fail --header 'Accept: application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json' "http://$address/v2/freehold/$1"; }
for image in $(grep -ohE "$REGISTRY/(operator|runner)@sha256:[0-9a-f]{64}" install.yaml | LC_ALL=C sort -u); do
	name=${image#"$REGISTRY/"} name=${name%@*} digest=${image#*@}
	[ "$(get "$name/manifests/$VERSION" | sha256sum)" = "${digest#sha256:}  -" ]
	for platform in $(get "$name/manifests/$digest" | grep -oE 'sha256:[0-9a-f]{64}'); do
		get "$name/referrers/$platform" | grep -q application/vnd.cyclonedx+json || {
			echo "verify-release: $name@$platform has no bill of materials" >&2
			exit 1
		}
	done
	echo "$image is there, with its bill of materials"
done
cat images.txt
echo "verify-release: both releases have these files and digests"
