#!/usr/bin/env bash
# Holds the product to the rules of hack/lint, as it is built. Tests play other
# writers and are not judged.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
GOFLAGS="${GOFLAGS:-} -tags=fieldsv1string,helm" \
	go run ./hack/lint -test=false ./apis/... ./applyconfig/... ./controllers/... ./cmd/... ./hack/... ./test/...
