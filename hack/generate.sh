#!/usr/bin/env bash
# Generates everything that is generated from the API types (deep copies, the
# CRDs, and the apply configurations) and from the contract (pages, admission
# policies and roles). Run by `make generate`.
set -euo pipefail
cd "$(dirname "$0")/.."
api=github.com/freehold-dev/freehold/apis/v1alpha1
tools=bin/tools
header=hack/boilerplate.go.txt

echo "generate: deep copies and CRDs"
$tools/controller-gen object paths=./apis/v1alpha1
$tools/controller-gen crd paths=./apis/v1alpha1 output:crd:artifacts:config=config/crd
# x-kubernetes-int-or-string says as much; with both, four lines of a refusal are about one number.
perl -0pi -e 's/\n *anyOf:\n *- type: integer\n *- type: string(?=\n)//g' config/crd/*.yaml

echo "generate: schema of the apply configurations"
rm -rf bin/schema && mkdir -p bin/schema
$tools/openapi-gen --output-dir bin/schema --output-pkg github.com/freehold-dev/freehold/bin/schema \
	--output-file zz_generated.openapi.go --report-filename /dev/null --go-header-file $header \
	$api k8s.io/api/core/v1 k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime \
	k8s.io/apimachinery/pkg/api/resource k8s.io/apimachinery/pkg/util/intstr
go run -tags schema ./hack/schema >bin/schema/swagger.json

echo "generate: apply configurations"
rm -rf bin/_applyconfig
core=k8s.io/api/core/v1
coreac=k8s.io/client-go/applyconfigurations/core/v1
externals=""
for type in EnvVar EnvFromSource Volume VolumeMount LocalObjectReference PersistentVolumeClaimSpec; do
	externals+="$core.$type:$coreac,"
done
$tools/applyconfiguration-gen --output-dir bin/_applyconfig \
	--output-pkg github.com/freehold-dev/freehold/applyconfig \
	--go-header-file $header --openapi-schema bin/schema/swagger.json \
	--external-applyconfigurations "${externals%,}" $api
# Moved as a whole, and only when something changed, so that whoever builds meanwhile sees files.
if ! diff -rq bin/_applyconfig applyconfig >/dev/null 2>&1; then
	rm -rf applyconfig && mv bin/_applyconfig applyconfig
fi

echo "generate: docs/ownership.md, docs/api.md, the table in docs/architecture.md, config/policy and config/rbac"
mkdir -p config/rbac
go run ./hack/docs

echo "generate: the chart's copies of config/crd, config/policy, config/rbac and config/monitoring"
rm -rf config/chart/files
mkdir -p config/chart/files/crds config/chart/files/policy config/chart/files/rbac config/chart/files/monitoring
cp config/crd/*.yaml config/chart/files/crds/
cp config/policy/*.yaml config/chart/files/policy/
cp config/rbac/*.yaml config/chart/files/rbac/
cp config/monitoring/* config/chart/files/monitoring/
