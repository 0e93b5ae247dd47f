# Development tasks; `make help` lists them.

GO ?= go
GOLANGCI_VERSION := v2.15.0
GOLANGCI := bin/golangci-lint-$(GOLANGCI_VERSION)
PKG ?= ./...
BENCH ?= .
# Modules of their own, because of what they need; PKG=... leaves them out.
MODULES := $(if $(filter ./...,$(PKG)),faultinject bench examples/faults examples/fencing)
SEEDS ?= 100000
CHAOS ?= 1m
SOAK ?= 10m

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Where internal/redisproc looks for libfaketime.
FAKETIME = $(wildcard $(foreach dir,/usr/lib/* /usr/lib* /usr/local/lib* /opt/homebrew/lib, \
	$(foreach name,libfaketimeMT.so.1 libfaketime.so.1 libfaketime.1.dylib,$(dir)/faketime/$(name))))

# redis-server is for the tests against real servers, libfaketime for those that step a server's
# clock, the C compiler for the race detector.
.PHONY: setup
setup: ## Install what the tests need: redis-server, libfaketime and a C compiler
	@missing=''; \
	command -v redis-server >/dev/null || missing="$$missing redis-server"; \
	[ -n '$(FAKETIME)' ] || missing="$$missing libfaketime"; \
	command -v "$$($(GO) env CC)" >/dev/null || missing="$$missing gcc"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	echo "setup: missing:$$missing"; \
	if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then sudo=''; \
	elif command -v apt-get >/dev/null && command -v sudo >/dev/null; then sudo='sudo'; \
	elif command -v brew >/dev/null; then \
		case "$$missing" in *gcc*) echo 'setup: run xcode-select --install for a C compiler' >&2; exit 1;; esac; \
		exec brew install $$(echo "$$missing" | sed 's/redis-server/redis/'); \
	else \
		echo "setup: cannot install on this system; please install, and put programs on PATH:$$missing" >&2; \
		echo 'setup: redis-server 6.2 or newer: https://redis.io/docs/latest/operate/oss_and_stack/install/' >&2; \
		echo 'setup: libfaketime, into /usr/local/lib/faketime or where packages put it: https://github.com/wolfcw/libfaketime' >&2; \
		exit 1; \
	fi; \
	case "$$missing" in *gcc*) missing="$$missing libc6-dev";; esac; \
	$$sudo apt-get update -q && \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing

.PHONY: test
test: setup ## Run all tests, under the race detector (PKG=./node for one package)
	$(GO) test -race -shuffle=on -timeout 20m $(PKG)
	@for module in $(MODULES); do echo "$$module:"; (cd $$module && $(GO) test -race ./...) || exit 1; done

.PHONY: chaos
chaos: setup ## Break real nodes for a minute, as processes and as containers (CHAOS=1m)
	$(GO) test -count=1 -timeout 12h ./faultinject/chaos -run Chaos -v -args -duration=$(CHAOS) -nodes=process
	$(GO) test -count=1 -timeout 12h ./faultinject/chaos -run Chaos -v -args -duration=$(CHAOS) -nodes=docker

.PHONY: mutants
mutants: ## Take each rule out of the protocol, and have the simulation find that
	$(GO) test -count=1 -timeout 2h ./faultinject/mutant -run TestMutants -v -args -budget=10000

.PHONY: soak
soak: setup ## All night: 100,000 simulated runs, all mutants, ten minutes of waiting and of chaos (SEEDS=, SOAK=)
	$(GO) test -count=1 -timeout 12h ./faultinject/sim -run TestSimulation -v -args -seeds=$(SEEDS)
	$(MAKE) mutants
	$(GO) test -count=1 -timeout 12h -run TestRealNoLostWake -v . -args -soak=$(SOAK)
	$(MAKE) chaos CHAOS=$(SOAK)

.PHONY: cover
cover: setup ## Run all tests and show the coverage of each function
	$(GO) test -timeout 20m -coverpkg=./... -coverprofile=coverage.out ./...
	$(GO) tool cover -func=coverage.out

.PHONY: bench
bench: setup ## Run the benchmarks of packages, for benchstat (BENCH=regexp for some)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 30m $(PKG)
	@if [ -n '$(MODULES)' ]; then cd bench && $(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./micro; fi

.PHONY: compare
compare: setup ## Measure side by side with others, into report/ (ARGS=-quick for a minute)
	$(GO) run -C bench . -out '$(CURDIR)/report' $(ARGS)

.PHONY: demo
demo: ## Show the library at work
	$(GO) run ./cmd/quorumlock demo

.PHONY: lint
lint: $(GOLANGCI) ## Run the linters, formatting included
	$(GOLANGCI) run
	@for module in $(MODULES); do echo "$$module:"; (cd $$module && $(CURDIR)/$(GOLANGCI) run) || exit 1; done

.PHONY: fmt
fmt: $(GOLANGCI) ## Format all Go files
	$(GOLANGCI) fmt

.PHONY: tidy-check
tidy-check: ## Fail if go.mod or go.sum are not tidy
	$(GO) mod tidy -diff
	@for module in $(MODULES); do (cd $$module && $(GO) mod tidy -diff) || exit 1; done

# Built once; the version is in the name, so that a new one is built when it changes here.
$(GOLANGCI):
	GOBIN='$(CURDIR)/bin' $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv bin/golangci-lint $@
