#!/usr/bin/env bash
# Builds the parts of a Kubernetes cluster from their Go modules.
#
#   build.sh NAME...     a set (envtest, cluster) or single binaries
#
#   K8S_VERSION   v1.36.3 by default, or any other release whose modules are published
#   K8S_BIN       where the binaries go, bin/k8s/$K8S_VERSION of this repository by default
#
# A binary whose module, flags and Go version are those of the last build is left alone, so
# that this can stand in front of every test run. The first build takes minutes (kube-apiserver
# most of them); Go's build cache makes later ones seconds.
set -euo pipefail
shopt -s nullglob

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
default=$(sed -n 's|^require k8s.io/kubernetes \([^ ]*\).*|\1|p' "$here/go.mod")
version=${K8S_VERSION:-$default}
out=${K8S_BIN:-$root/bin/k8s/$version}

# kube-apiserver first: everything that tests against an API server waits for it.
envtest=(kube-apiserver etcd kube-controller-manager kubectl)
cluster=("${envtest[@]}" kube-scheduler kubelet kube-proxy coredns)

fail() { echo "build.sh: $*" >&2; exit 1; }

# package NAME prints the import path of a binary's main package.
package() {
	case $1 in
	etcd) echo go.etcd.io/etcd/server/v3 ;;
	coredns) echo . ;;
	*) echo "k8s.io/kubernetes/cmd/$1" ;;
	esac
}

# module_for VERSION writes the go.mod of this folder for another release. Kubernetes' own
# go.mod lists its whole dependency graph, etcd's server included; only the staging folders,
# which it replaces by paths of its own tree, must become published modules.
module_for() {
	local release=$1 upstream
	upstream=$(go mod download -json "k8s.io/kubernetes@$release" | sed -n 's|.*"GoMod": "\(.*\)".*|\1|p')
	[ -n "$upstream" ] || fail "there is no module k8s.io/kubernetes@$release"
	sed -n '/^\/\//p; /^module /p' "$here/go.mod"
	sed -n '/^go /p; /^godebug /p' "$upstream"
	sed -n '/^tool (/,/^)/p' "$here/go.mod"
	echo "require k8s.io/kubernetes $release"
	sed -n '/^require (/,/^)/p' "$upstream"
	echo "replace ("
	sed -n "s|^\t\(k8s.io/[a-z0-9-]*\) => ./staging.*|\t\1 => \1 v0${release#v1}|p" "$upstream"
	echo ")"
}

# module_dir NAME prints the folder of the module that builds a binary.
module_dir() {
	if [ "$1" = coredns ]; then
		echo "$here/coredns"
	elif [ "$version" = "$default" ]; then
		echo "$here"
	else
		echo "$root/bin/k8s/src/$version"
	fi
}

# prepare writes the module of another release once; its go.sum fills as it builds.
prepare() {
	local dir
	dir=$(module_dir kube-apiserver)
	[ "$version" = "$default" ] || [ -f "$dir/go.mod" ] || {
		mkdir -p "$dir"
		(cd "$(mktemp -d)" && module_for "$version") >"$dir/go.mod.new"
		mv "$dir/go.mod.new" "$dir/go.mod"
	}
}

build() {
	local name=$1 dir stamp flags minor mode=readonly started=$SECONDS
	dir=$(module_dir "$name")
	minor=${version#v1.}
	flags="-s -w"
	# Clients refuse to parse the version of a binary that was not told which one it is.
	for told in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		flags+=" -X $told.gitVersion=$version -X $told.gitMajor=1 -X $told.gitMinor=${minor%%.*}"
	done
	[ "$name" != coredns ] || flags="-s -w"
	case $dir in "$root/bin/"*) mode=mod ;; esac

	stamp="$(go version) $flags $(cat "$dir"/go.mod "$dir"/*.go | cksum)"
	if [ -x "$out/$name" ] && [ "$(cat "$out/.$name.stamp" 2>/dev/null)" = "$stamp" ]; then
		return
	fi
	echo "building $name $version"
	CGO_ENABLED=0 go -C "$dir" build -mod="$mode" -trimpath -ldflags "$flags" \
		-o "$out/.$name.new" "$(package "$name")" || fail "building $name stopped"
	mv "$out/.$name.new" "$out/$name"
	echo "$stamp" >"$out/.$name.stamp"
	echo "built    $name in $((SECONDS - started)) s"
}

[ $# -gt 0 ] || fail "name a set (envtest, cluster) or binaries: ${cluster[*]}"
names=()
for arg in "$@"; do
	case " ${cluster[*]} " in
	*" $arg "*) names+=("$arg") ; continue ;;
	esac
	case $arg in
	envtest) names+=("${envtest[@]}") ;;
	cluster) names+=("${cluster[@]}") ;;
	*) fail "no set or binary is called $arg; there are envtest, cluster, ${cluster[*]}" ;;
	esac
done
command -v go >/dev/null || fail "go is not on the PATH"
mkdir -p "$out"
prepare
for name in "${names[@]}"; do
	build "$name"
done
echo "$out"
