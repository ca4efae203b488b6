#!/usr/bin/env bash
# The demo: a real Kubernetes, Freehold from its chart, a real MCP server behind
# it, a tool called through it, and the picture of who owns which field. Run by
# `make demo`, which builds the images first; `make demo-down` ends it.
#
#   demo.sh          all of it
#   demo.sh up       up to Freehold's installation
#   demo.sh play     what comes after
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source hack/demo-lib.sh

# The sample, with the image that was built here.
sample() { sed "s|\(image: .*\):dev$|\1:${VERSION:-dev}|" config/samples/everything.yaml; }

bring_up() {
	command -v curl >/dev/null || { echo "demo: curl is missing: install it" >&2; exit 1; }

	title "A real Kubernetes on this machine"
	echo "builds what is missing (minutes, the first time), and installs containerd, runc,"
	echo "the CNI plugins and nftables from the distribution if they are not there"
	hack/cluster.sh up
	hack/images/build.sh clients >/dev/null
	go build -trimpath -buildvcs=false -o bin/tools/picture ./hack/picture
	hack/build.sh kubectl-freehold >/dev/null
	cluster load bin/images/{operator,runner,everything-server}.tar

	title "Freehold, installed as users install it"
	install_freehold
}

[ "${1:-up}" != up ] || bring_up
[ "${1:-play}" = play ] || exit 0

title "One YAML"
k create namespace demo --dry-run=client -o yaml | k apply --server-side -f - >/dev/null
k label namespace demo pod-security.kubernetes.io/enforce=restricted --overwrite >/dev/null
started=$(date -u +%Y-%m-%dT%H:%M:%SZ)
sample
sample | mcp apply --server-side --field-manager=git -f -
await_ready everything

title "Its tools, listed and called through the proxy's Service, by two MCP clients of others"
url=$(mcp get mcp everything -o jsonpath='{.status.url}')
echo "$url"
list_tools "$url"
echo "  …"
echo "call json_schema_2020_12_tool:"
call_tool "$url" json_schema_2020_12_tool '{"name":"Ada","email":"ada@example.com"}'

title "A server that speaks on standard input and output, at an address of its own"
sample | sed 's/name: everything/name: stdio/; s/^  args: .*/  transport: stdio\n  command: [\/everything-server]/' |
	mcp apply --server-side --field-manager=git -f -
await_ready stdio
stdio=$(mcp get mcp stdio -o jsonpath='{.status.url}')
list_tools "$stdio"
echo "  …"
echo "call test_simple_text:"
call_tool "$stdio" test_simple_text '{}'
mcp delete mcp stdio

title "Who owns which field"
freehold owners mcp everything

title "Others write the same object: a finalizer, a label, a condition, the scale"
mcp apply --server-side --field-manager=billing -f - <<'YAML'
apiVersion: freehold.dev/v1alpha1
kind: MCPServer
metadata: {name: everything, finalizers: [billing.example.com/invoice], labels: {billing.example.com/team: blue}}
YAML
now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
mcp apply --server-side --field-manager=billing --subresource=status -f - <<YAML
apiVersion: freehold.dev/v1alpha1
kind: MCPServer
metadata: {name: everything}
status: {conditions: [{type: Billed, status: "True", reason: Paid, message: until 2030, lastTransitionTime: "$now"}]}
YAML
mcp scale mcp everything --replicas=2
await_replicas everything 2

title "Meanwhile Git changes an argument and restarts the server"
# The sessions of the calls above end with the switch: what comes next does not wait for them.
sample | sed 's/":8080"]/":8080", "-stateless=true"]\n  rollout: {sessionsEnd: 0s}/' |
	mcp apply --server-side --field-manager=git -f -
await_ready everything
mcp apply --server-side --field-manager=operations -f - <<YAML
apiVersion: freehold.dev/v1alpha1
kind: MCPServer
metadata: {name: everything}
spec: {restartedAt: "$now"}
YAML
await_ready everything
mcp get mcp everything -o wide

title "Everything that others wrote is still there, and still theirs"
mcp get mcp everything -o json --show-managed-fields | bin/tools/picture survived \
	'metadata.finalizers[="billing.example.com/invoice"]=billing' \
	'metadata.labels["billing.example.com/team"]=billing' \
	'status.conditions[type=Billed]=billing' \
	'spec.image=git' 'spec.args=git' \
	'spec.restartedAt=operations' \
	'metadata.finalizers[="freehold.dev/mcpserver"]=mcpserver.freehold.dev/finalizer' \
	'status.runtime=runner.freehold.dev/report'
# The API server records no owner for a scale of replicas that nobody owned, so
# the number itself has to tell.
[ "$(mcp get mcp everything -o jsonpath='{.spec.replicas}')" = 2 ] || { echo "LOST  spec.replicas" >&2; exit 1; }
echo "kept  spec.replicas: 2"

title "A second server lets in service accounts of the cluster; an authorization controller owns what they may call"
mcp delete mcp guarded --ignore-not-found
k -n demo create serviceaccount planner --dry-run=client -o yaml | mcp apply --server-side -f - >/dev/null
k -n demo create serviceaccount guest --dry-run=client -o yaml | mcp apply --server-side -f - >/dev/null
mcp apply --server-side --field-manager=platform -f - <<'YAML'
apiVersion: freehold.dev/v1alpha1
kind: MCPOIDCConfig
metadata: {name: cluster}
spec: {kubernetes: {serviceAccounts: [{namespace: demo, name: planner}, {namespace: demo, name: guest}]}}
YAML
{ sample | sed 's/name: everything/name: guarded/'; echo '  oidcConfigRef: {name: cluster}'; } |
	mcp apply --server-side --field-manager=git -f -
mcp apply --server-side --field-manager=authz-controller -f - <<'YAML'
apiVersion: freehold.dev/v1alpha1
kind: MCPServer
metadata: {name: guarded}
spec:
  authzConfig:
    policies:
    - name: planner
      policy: permit(principal == Client::"system:serviceaccount:demo:planner", action == Action::"call_tool", resource == Tool::"test_simple_text");
YAML
await_ready guarded
guarded=$(mcp get mcp guarded -o jsonpath='{.status.url}')
echo "The planner is let in:"
post_call "$guarded" test_simple_text planner | tee bin/demo.out
grep -q '^HTTP/1.1 200' bin/demo.out
echo "A guest is refused by name:"
post_call "$guarded" test_simple_text guest | tee bin/demo.out
grep -q '"isError":true' bin/demo.out
echo "A caller without a token is told where to log in:"
post_call "$guarded" test_simple_text | tee bin/demo.out
grep -q '^HTTP/1.1 401' bin/demo.out
mcp get mcpoidc cluster
mcp get mcp guarded -o json --show-managed-fields | bin/tools/picture survived 'spec.authzConfig=authz-controller' 'spec.oidcConfigRef=git'

title "No field of Freehold's is held by anybody else"
freehold audit

title "Events"
mcp get events --field-selector involvedObject.kind=MCPServer --sort-by=.lastTimestamp \
	-o custom-columns=TYPE:.type,REASON:.reason,SERVER:.involvedObject.name,MESSAGE:.message

title "Every write of Freehold in this namespace since the first YAML, from the API server's audit log"
picture_writes "$started"

cat <<'TEXT'

Look around: hack/cluster.sh exec -- kubectl -n demo describe mcp everything
When done:   make demo-down
TEXT
