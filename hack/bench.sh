#!/usr/bin/env bash
# Measures what many servers cost on a control plane of this machine where only pods are
# faked, and prints the figures beside their targets. The same, with every request counted,
# goes to bin/bench as JSON. Nothing else should run meanwhile.
#
#   bench.sh [FLAG...]              bench.sh -help lists the flags
#   bench.sh -servers 500 -rounds 3 -scenarios converge
#
#   KUBEBUILDER_ASSETS   the control plane, bin/k8s/K8S_VERSION by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$PWD/bin/k8s/${K8S_VERSION:-v1.36.3}}

hack/build.sh operator >/dev/null # whose memory is measured
CGO_ENABLED=0 go build -trimpath -tags fieldsv1string -o bin/benchmark ./test/bench
exec bin/benchmark "$@"
