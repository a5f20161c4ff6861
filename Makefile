# Everything a developer needs. Only Go, make and a C compiler are assumed; what
# else a target needs, it builds from Go modules or installs, and says so.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X github.com/hybrid-pleg/hybrid-pleg/internal/version.number=$(VERSION)
BIN     := bin/hybrid-pleg

# Arguments for run, such as ARGS="--triggers none".
ARGS ?=
# Packages and patterns for test and bench.
PKGS  ?= ./...
BENCH ?= .

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Build, and tell what happens on this machine's runtime, or on the embedded one
	./$(BIN) run $(ARGS)

.PHONY: build
build: ## Build bin/hybrid-pleg
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/hybrid-pleg

.PHONY: test
test: vet test-runtime-build ## Run all tests, with the race detector
	@# internal/e2e alone and last: its triggers see every container on the host,
	@# those of other tests too.
	@pkgs=$$($(GO) list $(PKGS)); \
	rest=$$(grep -v '/internal/e2e$$' <<<"$$pkgs" || true); \
	[ -z "$$rest" ] || $(GO) test -race -timeout 20m $$rest; \
	! grep -q '/internal/e2e$$' <<<"$$pkgs" || $(GO) test -race -timeout 20m ./internal/e2e

.PHONY: vet
vet: ## Vet for Linux and, where it can exist there, for macOS
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...

# Building containerd and runc takes minutes the first time: done before the tests,
# where its progress shows, and only where the tests can use it.
.PHONY: test-runtime-build
test-runtime-build:
	@if [ "$$(id -u)" = 0 ] && [ "$$(uname)" = Linux ]; then \
		$(GO) run ./internal/testruntime/cmd/testruntime build; \
	else \
		echo "not root on Linux: tests against a real containerd will be skipped"; \
	fi

.PHONY: test-kernels
test-kernels: ## Test in virtual machines with other kernels and cgroup layouts (see docs/kernels.md)
	@mkdir -p bin
	$(GO) build -o bin/kerneltest ./internal/kerneltest/cmd/kerneltest
	exec bin/kerneltest $(if $(ARGS),$(ARGS),-table docs/kernels.md)

.PHONY: test-kernel
test-kernel: ## The same with one kernel, as every change is tried with
	@mkdir -p bin
	$(GO) build -o bin/kerneltest ./internal/kerneltest/cmd/kerneltest
	exec bin/kerneltest -short $(ARGS)

.PHONY: vagrant-test
vagrant-test: ## Run vagrant for real, with several kernels (as root on Debian; see scripts/vagrant/README.md)
	GO=$(GO) exec scripts/vagrant/local/test $(ARGS)

# Builds with the same flags as its tests, so that Kubernetes is compiled once; that
# is also why there is no race detector, and no vetting of all that it imports.
.PHONY: kubelet-pleg
kubelet-pleg: ## Build bin/kubelet-pleg, the kubelet's own generators (see peers/kubelet)
	@mkdir -p bin
	cd peers/kubelet && $(GO) build -o ../../bin/kubelet-pleg ./cmd/kubelet-pleg

.PHONY: test-peers
test-peers: test-runtime-build ## Compare with the kubelet's generators; compiles Kubernetes the first time
	cd peers/kubelet && $(GO) test -vet=off -timeout 20m ./...

.PHONY: test-peers-histories
test-peers-histories: ## The same with 100,000 random histories, or with ARGS
	cd peers/kubelet && $(GO) test -vet=off -timeout 2h -v -run TestHistories ./differential -histories 100000 $(ARGS)

.PHONY: bench
bench: test-runtime-build ## Measure on a real containerd (as root, a quarter of an hour), and run the micro-benchmarks
	$(GO) test -timeout 2h -run '^$$' -bench '$(BENCH)' -benchmem $(PKGS)

.PHONY: runtime
runtime: ## Start a private containerd to play with (as root), until Ctrl-C
	@mkdir -p bin
	$(GO) build -o bin/testruntime ./internal/testruntime/cmd/testruntime
	exec bin/testruntime run $(ARGS)

.PHONY: lint
lint: ## Run golangci-lint, built from its module
	$(GO) tool -modfile=tools/lint/go.mod golangci-lint run ./...
	$(GO) mod tidy -diff
	cd peers/kubelet && $(GO) mod tidy -diff

.PHONY: generate
generate: ## Regenerate the API's Go code and the BPF objects (these need clang; installs it on Debian as root)
	GO=$(GO) api/generate.sh
	bpf/generate.sh

.PHONY: check-generated
check-generated: ## Fail if regenerating would change anything
	GO=$(GO) api/generate.sh --check
	bpf/generate.sh --check
