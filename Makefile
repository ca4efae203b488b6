# Freehold's targets. Whatever is longer than a few lines is a script in hack/.
# `make` alone tells what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# The tag of the images that are built here, the releases of Kubernetes that are supported
# (docs/versions.md), and the one that is tested against.
VERSION ?= dev
K8S_VERSIONS ?= v1.34.4 v1.35.4 v1.36.3
K8S_VERSION ?= $(lastword $(K8S_VERSIONS))
KUBEBUILDER_ASSETS ?= $(CURDIR)/bin/k8s/$(K8S_VERSION)
export VERSION K8S_VERSION KUBEBUILDER_ASSETS
# One static binary each, the same bytes wherever it is built.
export CGO_ENABLED = 0
# Tests are built with the flags of the product, so that one build cache serves both.
export GOFLAGS := -trimpath -buildvcs=false

# Field sets of cached objects as strings: less memory, and no decoding where nobody looks.
TAGS := -tags fieldsv1string
GO_TEST := go test $(TAGS)

TOOLS := bin/tools
GENERATORS := $(addprefix $(TOOLS)/,controller-gen openapi-gen applyconfiguration-gen)
BENCHSTAT := $(TOOLS)/benchstat

##@ Every day

.PHONY: help
help: ## Tell what there is
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-zA-Z0-9-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: generate
generate: $(GENERATORS) ## Write everything that is generated from the API types and the contract
	hack/generate.sh

.PHONY: fmt
fmt: $(TOOLS)/golangci-lint ## Format the code
	$(TOOLS)/golangci-lint fmt

.PHONY: tidy
tidy: ## Tidy every go.mod
	hack/modules.sh tidy

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## Lint the code
	$(TOOLS)/golangci-lint run --allow-parallel-runners
	hack/lint.sh

.PHONY: golden
golden: $(TOOLS)/helm ## Write the golden files; look at the diff before you commit it
	$(GO_TEST),helm $$(grep -rlE --include='*_test.go' 'flag.Bool\("update"|freehold/test/golden"' . | xargs -n1 dirname | sort -u) -update

.PHONY: verify
verify: $(GENERATORS) $(TOOLS)/golangci-lint $(TOOLS)/helm $(TOOLS)/hugo ## Check everything that can be read: generated files, format, lint, architecture, licences, chart, the site
	hack/verify.sh

.PHONY: licenses
licenses: ## List the licences of what is linked in docs/maintainers/licenses.md; fails for one that is not permissive
	go -C hack/images run ./licenses -page docs/maintainers/licenses.md

##@ Tests

.PHONY: test-unit
test-unit: ## Run the tests that need nothing but Go
	KUBEBUILDER_ASSETS=/nonexistent $(GO_TEST) -timeout 10m -count=1 $$(hack/packages.sh unit)
	go -C hack/images test -timeout 10m -count=1 ./...

# test-unit runs by itself: the runner gives a connection seconds, as it does in a cluster, and beside
# API servers a machine of two cores may take longer. A suite waits for two thirds of its time, so that
# two cores carry several: STORIES processes share out Ginkgo's stories, each with a control plane of
# its own. Beside them PLANES other suites run at once. Go collects garbage a fifth as often as by
# default: a control plane allocates much and keeps little.
STORIES ?= 3
PLANES ?= 2

.PHONY: test
test: controlplane $(TOOLS)/helm ## Run every test that needs no root: also against a real API server
	@$(MAKE) test-unit
	@$(MAKE) -j2 test-stories test-plane

.PHONY: test-stories
test-stories: controlplane
	GOGC=400 go tool ginkgo run $(TAGS) -ldflags='-s -w' -procs=$(STORIES) -keep-going -timeout=40m -no-color -output-interceptor-mode=none \
		$$(hack/packages.sh stories)

.PHONY: test-plane
test-plane: controlplane
	GOGC=400 $(GO_TEST) -timeout 40m -count=1 -p $(PLANES) $$(hack/packages.sh plane)
	go -C test/example test -timeout 10m -count=1 -p $(PLANES) ./...

.PHONY: test-versions
test-versions: ## Run `make test` against each of K8S_VERSIONS
	for version in $(K8S_VERSIONS); do \
		echo "==> Kubernetes $$version"; \
		$(MAKE) test K8S_VERSION=$$version KUBEBUILDER_ASSETS=$(CURDIR)/bin/k8s/$$version; \
	done

.PHONY: race
race: controlplane $(TOOLS)/helm ## Run every test under the race detector; needs a C compiler
	hack/race.sh

.PHONY: soak
soak: controlplane ## Run the tests of random order at length, from seeds drawn anew, and an hour of connect --forward; three hours
	GOGC=400 FREEHOLD_EXPLORE=1 FREEHOLD_MODEL_OPS=50000 FREEHOLD_GATE_RUNS=2000 FREEHOLD_ROLLOUT_RUNS=500 FREEHOLD_KILLS=500 \
		$(GO_TEST) -timeout 3h -count=1 -p $(PLANES) -v ./test/model ./test/faults
	FREEHOLD_EXPLORE=1 $(GO_TEST) -count=1 -run 'Dropped' -v ./cmd/runner/internal/proxy
	FREEHOLD_FORWARD=1h $(GO_TEST) -count=1 -timeout 2h -run ForwardOutlasts -v ./cmd/kubectl-freehold
	GOGC=400 FREEHOLD_ORPHANS=50 $(GO_TEST) -count=1 -timeout 30m -v ./test/integration -ginkgo.focus 'deleted with --cascade=orphan'
	FREEHOLD_EXPLORE=1 FREEHOLD_ROLLOUT_LIVES=20000 $(GO_TEST) -count=1 -timeout 1h -run 'Promises|Lives' -v ./controllers/rollout ./controllers/mcpserver/successive

.PHONY: vuln
vuln: $(TOOLS)/govulncheck ## Look for known vulnerabilities in what the product calls; needs the database, see VULNDB in hack/vuln.sh
	hack/vuln.sh

.PHONY: test-gitops
test-gitops: controlplane $(TOOLS)/helm $(TOOLS)/controller-gen ## Hold config/gitops to Flux and Argo CD themselves; half an hour the first time. RUN= names stories
	hack/gitops/build.sh
	$(GO_TEST) -timeout 45m -count=1 -v -run '$(RUN)' ./test/gitops

.PHONY: test-helm
test-helm: controlplane $(TOOLS)/helm $(TOOLS)/helm3/helm ## Install, upgrade, roll back and uninstall the chart, with Helm 4 and with Helm 3
	for helm in helm helm3/helm; do \
		HELM=$(CURDIR)/$(TOOLS)/$$helm $(GO_TEST) -timeout 20m -count=1 -v -run Helm ./test/install; \
	done

.PHONY: fuzz
fuzz: ## Fuzz each Fuzz function for FUZZTIME (1m); what is found stays as a test
	hack/fuzz.sh

.PHONY: e2e
e2e: images $(TOOLS)/helm ## Run the demo and the tests on a real cluster of this machine; needs root
	hack/e2e.sh

.PHONY: e2e-start
e2e-start: images $(TOOLS)/helm ## Follow the start pages with the images that they make, on a real cluster of this machine; needs root and npm
	hack/e2e-start.sh

.PHONY: e2e-helm
e2e-helm: images $(TOOLS)/helm $(TOOLS)/helm3/helm ## Install, upgrade from the last tag (FROM= names another commit), roll back and uninstall while clients call, with Helm 4 and Helm 3, on a real cluster of this machine; needs root
	hack/e2e-helm.sh

.PHONY: e2e-gitops
e2e-gitops: images $(TOOLS)/helm ## Have Flux and Argo CD install, change and delete on a real cluster of this machine; needs root
	hack/gitops/build.sh flux argo
	hack/e2e-gitops.sh

.PHONY: conformance
conformance: images $(TOOLS)/helm ## Hold a server behind Freehold against the same server without, with the conformance suite of MCP on a real cluster; needs root
	hack/conformance.sh

.PHONY: wild
wild: ## Hold MCP servers of others behind Freehold against the same servers without, with clients of others; needs npm and root, ten minutes. WILD= takes its flags
	hack/wild.sh $(WILD)

.PHONY: clients
clients: ## Hold docs/maintainers/clients.md to what clients of others show of each refusal; needs npm and root, five minutes and 1.5 GB. CLIENTS=-update writes it
	hack/clients.sh $(CLIENTS)

.PHONY: bench
bench: controlplane ## Measure what many servers cost, against targets; a quarter of an hour. BENCH= takes its flags
	hack/bench.sh $(BENCH)

.PHONY: bench-ownership
bench-ownership: controlplane ## Measure what others lose beside Freehold, and beside the old ways to write; four minutes. BENCH= takes its flags
	hack/bench.sh -scenarios ownership -out bin/bench/ownership $(BENCH)

.PHONY: bench-cost
bench-cost: controlplane ## Measure what an object costs an API server by four ways to keep it; two minutes. BENCH= takes its flags
	hack/bench.sh -scenarios cost -out bin/bench/cost $(BENCH)

.PHONY: bench-rollout
bench-rollout: controlplane ## Measure what rollouts cost four reconcilers of one server, and what they lose in the old ways; two minutes. BENCH= takes its flags
	hack/bench.sh -scenarios rollout -out bin/bench/rollout $(BENCH)

.PHONY: bench-tenant
bench-tenant: controlplane ## Measure what one namespace's flood does to another's servers, and to the operator's memory; ten minutes. BENCH= takes its flags
	hack/bench.sh -scenarios tenant -patience 40m -out bin/bench/tenant $(BENCH)

.PHONY: bench-core
bench-core: $(BENCHSTAT) ## Measure in process what a pass costs where nothing is to be written
	hack/bench-core.sh

.PHONY: bench-proxy
bench-proxy: ## Measure what the proxy costs against others, and with net/http in the place of its own code; a quarter of an hour. BENCH= takes its flags
	hack/bench-proxy.sh $(BENCH)

.PHONY: bench-memory
bench-memory: ## Measure what memory the proxy takes under attacks, and how long a victim's calls take; five minutes. BENCH= takes its flags
	hack/bench-memory.sh $(BENCH)

##@ Building

.PHONY: build
build: ## Build the operator, the runner and the plugin of kubectl into bin/
	hack/build.sh operator runner kubectl-freehold

.PHONY: images
images: ## Make the images of operator, runner and the demo's server, without a container engine
	hack/images.sh

.PHONY: images-all
images-all: ## Make the images of operator and runner for every platform, as OCI layouts with their SBOMs
	hack/images.sh all

.PHONY: site
site: $(TOOLS)/hugo ## Build the documentation as a site in bin/site, and check its links
	hack/site.sh

.PHONY: plugin
plugin: ## Pack the plugin of kubectl for every platform, with its manifest for krew; VERSION=v1.2.3 URL=https://…
	hack/plugin.sh

.PHONY: verify-images
verify-images: ## Check that two builds of the images from different places give the same bytes
	hack/verify-images.sh

.PHONY: release
release: $(TOOLS)/helm ## Make everything that a release has; VERSION=v1.2.3, and REGISTRY=… to push images and chart
	hack/release.sh

.PHONY: verify-release
verify-release: $(TOOLS)/helm ## Make a release of HEAD twice, push it to a registry of this machine, and compare
	hack/verify-release.sh

.PHONY: controlplane
controlplane: ## Build kube-apiserver, etcd, kube-controller-manager and kubectl; minutes the first time
	hack/controlplane/build.sh envtest

.PHONY: clean
clean: ## Remove what was built, but for the control plane and the tools
	find bin -mindepth 1 -maxdepth 1 ! -name k8s ! -name tools -exec rm -rf {} +

##@ A cluster

.PHONY: demo
demo: images $(TOOLS)/helm ## Play the product's story on a real Kubernetes of this machine; needs root
	hack/demo.sh

.PHONY: demo-down
demo-down: cluster-down ## End what the demo started

.PHONY: cluster
cluster: ## Bring an empty Kubernetes up on this machine; needs root, or kind and a container engine
	hack/cluster.sh up

.PHONY: cluster-down
cluster-down: ## End that Kubernetes
	hack/cluster.sh down

# A tool is built again when the module file that pins it changes.

$(GENERATORS) $(BENCHSTAT): hack/tools/go.mod
	go build -C hack/tools -trimpath -ldflags '-s -w' -o ../../$(TOOLS)/ tool

$(TOOLS)/golangci-lint: hack/tools/lint/go.mod
	@echo "building golangci-lint, which takes minutes the first time"
	go build -C hack/tools/lint -trimpath -ldflags '-s -w' -o ../../../$(TOOLS)/ tool

$(TOOLS)/helm: hack/tools/helm/go.mod
	@echo "building helm, which takes minutes the first time"
	go build -C hack/tools/helm -trimpath -ldflags '-s -w' -o ../../../$(TOOLS)/ tool

$(TOOLS)/helm3/helm: hack/tools/helm3/go.mod
	@echo "building Helm 3, which takes minutes the first time"
	go build -C hack/tools/helm3 -trimpath -ldflags '-s -w' -o ../../../$(TOOLS)/helm3/ tool

$(TOOLS)/hugo: hack/tools/site/go.mod
	@echo "building hugo, which takes two minutes the first time"
	go build -C hack/tools/site -trimpath -ldflags '-s -w' -o ../../../$(TOOLS)/ tool

$(TOOLS)/govulncheck: hack/tools/vuln/go.mod
	go build -C hack/tools/vuln -trimpath -ldflags '-s -w' -o ../../../$(TOOLS)/ tool
