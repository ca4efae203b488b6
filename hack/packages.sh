#!/usr/bin/env bash
# Prints the packages whose tests need the same things.
#
#   packages.sh unit    nothing but Go
#   packages.sh plane   the binaries of a control plane, which test/kit starts
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
module=github.com/freehold-dev/freehold

plane=$(grep -rlE --include='*.go' '\bkit\.(Start|Main)\(' test | xargs -r -n1 dirname | grep -v '^test/example' | sort -u |
	grep -vx -e test/e2e -e test/gitops)
case ${1:-} in
plane)
	echo "$plane" | sed "s|^|$module/|"
	;;
unit)
	go list -tags fieldsv1string ./apis/... ./applyconfig/... ./controllers/... ./cmd/... ./hack/... ./test/... |
		grep -vxF -e "$module/test/e2e" -e "$module/test/gitops" -f <(echo "$plane" | sed "s|^|$module/|")
	;;
*)
	echo "packages.sh: name what to print: unit or plane" >&2
	exit 1
	;;
esac
