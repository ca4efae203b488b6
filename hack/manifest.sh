#!/usr/bin/env bash
# Prints all that a chart installs by default, with its namespace, for kubectl apply --server-side -f.
#
#   manifest.sh CHART VERSION
set -euo pipefail
helm=$(dirname "${BASH_SOURCE[0]}")/../bin/tools/helm
[ -x "$helm" ] || { echo "manifest.sh: make bin/tools/helm builds the program that renders the chart" >&2; exit 1; }
# The Namespace states a label: of an applied object without a field the API server notes no owner, and makes one up the next time.
printf -- '# Freehold %s: kubectl apply --server-side -f install.yaml\napiVersion: v1\nkind: Namespace\nmetadata:\n  labels:\n    app.kubernetes.io/name: freehold\n  name: freehold-system\n' "$2"
"$helm" template freehold "$1" --namespace freehold-system
