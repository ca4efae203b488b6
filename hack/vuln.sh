#!/usr/bin/env bash
# Looks for known vulnerabilities in what the product calls, with the database of the Go project.
#
#   VULNDB   another database: https://…, or file://… of a folder in the same form
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

code=0
bin/tools/govulncheck ${VULNDB:+-db "$VULNDB"} -tags fieldsv1string ./apis/... ./applyconfig/... ./controllers/... ./cmd/... || code=$?
case $code in
0) echo "vuln: nothing is known against what is called" ;;
3) echo "vuln: raise the modules above, or Go itself, to the versions that it names" >&2 ;;
*) echo "vuln: govulncheck could not look; where its database is not reached, set VULNDB to a copy" >&2 ;;
esac
exit $code
