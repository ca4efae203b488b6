#!/usr/bin/env bash
# Packs the plugin of kubectl for every platform, and fills in its manifest for krew with the checksums: all of it in
# bin/plugin, the same bytes wherever it is built with the same Go.
#
#   VERSION     the tag of the release, such as v1.2.3; v0.0.0 by default
#   URL         where krew is to find the archives; by default an address that nobody has, for krew install --archive
#   PLATFORMS   those of config/krew/freehold.yaml by default, as linux/amd64
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export VERSION=${VERSION:-v0.0.0}
url=${URL:-https://freehold.invalid/$VERSION}
out=bin/plugin manifest=config/krew/freehold.yaml

[[ $VERSION =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]] || { echo "plugin.sh: VERSION is $VERSION; krew takes tags as v1.2.3" >&2; exit 1; }
rm -rf "$out"
mkdir -p "$out"
go -C hack/images run ./licenses -texts bin/licenses/THIRD_PARTY

filled=$(sed "/^#/d; s/VERSION/$VERSION/; s|URL/|$url/|" "$manifest")
for platform in ${PLATFORMS:-$(sed -n 's/.*{os: \(.*\), arch: \(.*\)}}.*/\1\/\2/p' "$manifest")}; do
	os=${platform%/*} arch=${platform#*/} folder=$out/${platform/\//_}
	archive=$out/kubectl-freehold_${os}_$arch.tar.gz
	GOOS=$os GOARCH=$arch OUT=$folder hack/build.sh kubectl-freehold
	if [ "$os" = windows ]; then mv "$folder/kubectl-freehold" "$folder/kubectl-freehold.exe"; fi
	install -m 755 cmd/kubectl-freehold/kubectl_complete-freehold "$folder"
	install -m 644 LICENSE bin/licenses/THIRD_PARTY "$folder"
	# Names in order, no times, no owners, one umask: two builds give the same bytes.
	tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' -C "$folder" -cf - . | gzip -n >"$archive"
	rm -r "$folder"
	sum=$(sha256sum "$archive")
	filled=${filled//SHA256_${os^^}_${arch^^}/${sum%% *}}
	echo "packed $archive"
done
printf '%s\n' "$filled" >"$out/freehold.yaml"
echo "$out/freehold.yaml is the manifest for krew"
