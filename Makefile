# Development tasks; `make help` lists them.

GO ?= go
GOLANGCI_VERSION := v2.15.0
GOTESTSUM := gotest.tools/gotestsum@v1.13.0
GOLANGCI := bin/golangci-lint-$(GOLANGCI_VERSION)
PROMTOOL := $(or $(shell command -v promtool),bin/promtool)
PKG ?= ./...
BENCH ?= .
BENCHTIME ?= 1s
# The packages that have benchmarks, of all modules.
BENCHES = $(if $(filter ./...,$(PKG)),$(shell grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n1 dirname | sort -u),$(PKG))
# How many tests at a time of those that run in parallel: more than there are processors, as they
# wait most of the time.
PARALLEL ?= 6
# Modules of their own, because of what they need; PKG=... leaves them out.
MODULES := $(if $(filter ./...,$(PKG)),faultinject goredis otel prometheus examples bench)
SEEDS ?= 100000
CHAOS ?= 1m
SOAK ?= 10m
RUNS ?= 20

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
		echo 'setup: redis-server 6.2.7 or newer: https://redis.io/docs/latest/operate/oss_and_stack/install/' >&2; \
		echo 'setup: libfaketime, into /usr/local/lib/faketime or where packages put it: https://github.com/wolfcw/libfaketime' >&2; \
		exit 1; \
	fi; \
	case "$$missing" in *gcc*) missing="$$missing libc6-dev";; esac; \
	$$sudo apt-get update -q && \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing

# The packages that take longest come first, so that others run beside them. Some of these wait for
# servers most of the time, and others, such as the simulation, calculate.
TESTED = $(if $(filter ./...,$(PKG)),./internal/realtest ./faultinject/chaos ./examples/service ./cmd/quorumlock ./node \
	./internal/tests/waiting ./... \
	$(addsuffix /...,$(addprefix ./,$(if $(FULL),$(MODULES),$(filter-out bench,$(MODULES))))),$(PKG))
# What make test leaves out, besides tests that say so themselves. FULL=1, for CI, leaves nothing out.
LONG := the race detector, thousands of seeds of the simulation, mutants, chaos for a minute
APART := $(if $(filter ./...,$(PKG)), and the module bench with the tests of Redisson)

.PHONY: test
test: setup ## Run the tests, in about five minutes, and say what was left out (PKG=./node for one package)
	$(if $(FULL),,@echo 'Left out, see make check: $(LONG)$(APART).')
	$(GO) run $(GOTESTSUM) --format pkgname --format-hide-empty-pkg -- \
		$(if $(FULL),-race,-short) -shuffle=on -p 4 -parallel $(PARALLEL) -timeout 20m $(TESTFLAGS) $(TESTED)

.PHONY: check
check: ## Run everything that CI runs, in some 30 minutes: with Docker and Maven where there are these
	DOCKER=present bash .ci/run

.PHONY: test-servers
test-servers: setup ## Fetch servers of other versions, Redis and Valkey, and run what needs a server on each
	bash .ci/servers test

.PHONY: test-alerts
test-alerts: $(PROMTOOL) ## Test the alert rules with promtool, which comes with Prometheus
	$(PROMTOOL) test rules otel/alerts_test.yaml

.PHONY: test-load
test-load: setup ## Run make test beside busy processes, twice as many as processors (RUNS=20)
	bash .ci/load $(RUNS)

.PHONY: test-long
test-long: setup ## Run the tests of the library itself with all their cases, and for longer
	$(GO) test -race -count=1 -shuffle=on -parallel $(PARALLEL) -timeout 2h . ./internal/tests/... ./internal/realtest -args -long
	$(GO) test -count=1 -shuffle=on -parallel $(PARALLEL) -timeout 2h ./internal/tests/load -args -long

.PHONY: chaos
chaos: setup ## Break real nodes for a minute, as processes and as containers, with all scenarios (CHAOS=1m)
	$(GO) test -count=1 -timeout 12h ./faultinject/chaos -run Chaos -v -args -duration=$(CHAOS) -nodes=process
	$(GO) test -count=1 -parallel 1 -timeout 12h ./faultinject/chaos -run 'Chaos|Scenario' -skip Cluster -v -args -duration=$(CHAOS) -nodes=docker

.PHONY: mutants
mutants: ## Take each rule out of the protocol, and have the simulation find that
	$(GO) test -count=1 -timeout 6h ./faultinject/mutant -run TestMutants -v -args -budget=10000 -nightly

.PHONY: soak
soak: setup ## All night: test-long, 100,000 simulated runs, all mutants, ten minutes of waiting and of chaos (SEEDS=, SOAK=)
	$(MAKE) test-long
	$(GO) test -count=1 -timeout 12h ./faultinject/sim -run TestSimulation -v -args -from=0 -seeds=$(SEEDS)
	$(MAKE) mutants
	$(GO) test -count=1 -timeout 12h -run TestRealNoLostWake -v ./internal/realtest -args -soak=$(SOAK)
	$(MAKE) chaos CHAOS=$(SOAK)

.PHONY: cover
cover: setup ## Run all tests and show the coverage of each function
	$(GO) test -timeout 20m -coverpkg=./... -coverprofile=coverage.out ./...
	$(GO) tool cover -func=coverage.out

.PHONY: bench
bench: setup ## Run the benchmarks of packages, for benchstat (BENCH=regexp for some, BENCHTIME=)
	$(GO) test -p 1 -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem -timeout 1h $(TESTFLAGS) $(BENCHES)

.PHONY: goals
goals: setup ## Measure side by side with others, and say which goals are reached, in half an hour
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

# The package is unpacked and not installed, because that would start a server.
bin/promtool:
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cd "$$dir" && \
	{ apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }; } && dpkg -x prometheus_*.deb . && \
	mkdir -p '$(CURDIR)/bin' && cp usr/bin/promtool '$(CURDIR)/bin/'
