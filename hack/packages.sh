#!/usr/bin/env bash
# Prints the packages whose tests need the same things.
#
#   packages.sh unit      nothing but Go
#   packages.sh plane     the binaries of a control plane, which test/kit starts
#   packages.sh stories   the same; they are Ginkgo's, which shares their stories out among processes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
module=github.com/freehold-dev/freehold

# calls PATTERN lists the folders of make test in which a file matches.
calls() {
	grep -rlE --include='*.go' "$1" test | xargs -r -n1 dirname | grep -v '^test/example' | sort -u |
		grep -vx -e test/e2e -e test/gitops | sed 's|^|./|'
}

plane=$(calls '\bkit\.(Start|Main)\(')
stories=$(calls '\bRunSpecs\(')
case ${1:-} in
plane)
	grep -vxF "$stories" <<<"$plane"
	;;
stories)
	echo "$stories"
	;;
unit)
	go list -tags fieldsv1string ./apis/... ./applyconfig/... ./controllers/... ./cmd/... ./hack/... ./test/... |
		grep -vxF -e "$module/test/e2e" -e "$module/test/gitops" -f <(sed "s|^\.|$module|" <<<"$plane")
	;;
*)
	echo "packages.sh: name what to print: unit, plane or stories" >&2
	exit 1
	;;
esac
