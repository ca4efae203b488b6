# Sourced by demo.sh, e2e.sh, e2e-gitops.sh and conformance.sh: the few verbs they share.

title() { printf '\n\033[1m=== %s\033[0m\n' "$*"; }
cluster() { bin/tools/cluster "$@"; }
in_cluster() { cluster exec -- "$@"; }
k() { in_cluster kubectl "$@"; }
mcp() { k -n demo "$@"; }

# end_cluster ends the script as it was about to end, and the cluster with it, unless KEEP=1 is set.
end_cluster() {
	local code=$?
	[ "${KEEP:-}" = 1 ] || hack/cluster.sh down
	exit "$code"
}

# install_freehold installs the chart with the images that were built here. Their
# tag stays when they are built again, so the pods are told by their digest.
install_freehold() {
	local images
	images=$(cat bin/images/{operator,runner}.tar | sha256sum | cut -c1-16)
	in_cluster bin/tools/helm upgrade --install freehold config/chart \
		--namespace freehold-system --create-namespace \
		--set image.tag="${VERSION:-dev}" --set runner.image.tag="${VERSION:-dev}" \
		--set-string podAnnotations.images="$images" \
		--wait --timeout 5m >/dev/null
	k -n freehold-system get deployments,pods
}

# await_ready NAME shows how a server becomes ready for its present spec, for at
# most five minutes, and waits until calls get through: the node learns of a Service's
# pods a moment after the API server does, and refuses connections until then.
await_ready() {
	local watch ended=0 generation
	generation=$(mcp get mcp "$1" -o jsonpath='{.metadata.generation}')
	# Not the function: its process would be a shell, and kubectl outlive it.
	bin/tools/cluster exec -- kubectl -n demo get mcp "$1" --watch 2>/dev/null &
	watch=$!
	mcp wait "mcp/$1" --for=jsonpath='{.status.observedGeneration}'="$generation" --timeout=120s >/dev/null || ended=1
	mcp wait "mcp/$1" --for=condition=Ready --timeout=300s >/dev/null || ended=1
	kill "$watch" 2>/dev/null || true
	wait "$watch" 2>/dev/null || true
	[ "$ended" = 0 ] || { mcp describe mcp "$1"; echo "demo: $1 did not become ready, see above" >&2; return 1; }
	in_cluster curl --silent --head --output /dev/null --max-time 5 --retry 60 --retry-delay 1 --retry-all-errors \
		"$(mcp get mcp "$1" -o jsonpath='{.status.url}')"
}

# await_replicas NAME N waits until a server has N ready replicas.
await_replicas() {
	mcp wait "mcp/$1" --for=jsonpath='{.status.readyReplicas}'="$2" --timeout=300s >/dev/null
	mcp get mcp "$1"
}

# list_tools URL lists the tools of a server with the MCP client of mcp-go.
list_tools() { in_cluster bin/tools/simple_client -http "$1" | sed -n '/Connected/p;/tools available/,/^  5\./p'; }

# call_tool URL TOOL ARGUMENTS calls a tool with the MCP client of the Go SDK, and
# shows the first answer: it is a load test, here of one call a second.
call_tool() {
	in_cluster bin/tools/loadtest -v -workers 1 -qps 1 -duration 3s -timeout 20s -tool "$2" -args "$3" "$1" 2>&1 |
		awk '{said = said $0 "\n"} /FAILURE/ {bad = 1} !good && sub(/.*SUCCESS: /, "") {good = $0}
			END {if (bad || !good) {printf "%s", said; exit 1} print good}'
}

# post_call URL TOOL [ACCOUNT] calls a tool by plain HTTP, with a token of a service account, and shows what was answered.
post_call() {
	local token=()
	[ -z "${3:-}" ] || token=(--header "Authorization: Bearer $(mcp create token "$3" --audience="$1")")
	in_cluster curl --silent --show-error --max-time 20 --include \
		--header 'Content-Type: application/json' --header 'Accept: application/json, text/event-stream' "${token[@]}" \
		--data '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"'"$2"'","arguments":{}}}' "$1" |
		tr -d '\r' | grep -iE '^(HTTP/|www-authenticate:|data:|\{)'
}

# freehold COMMAND... asks the plugin of kubectl.
freehold() { in_cluster bin/kubectl-freehold -n demo "$@"; }

# picture_writes SINCE counts Freehold's writes in the demo's namespace from the audit log.
picture_writes() { bin/tools/picture writes "$(audit_log)" demo "$1"; }
audit_log() { echo "${FREEHOLD_CLUSTER_DIR:-/var/lib/freehold-cluster}/logs/audit.log"; }
