# Tokenscope. `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c

# No C compiler is needed: one static file a command (design decision). -trimpath keeps the
# builder's paths out of it.
export CGO_ENABLED := 0
GO ?= go
# Twelve digits: by itself git takes as many as this clone needs, and another clone other ones.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --always --dirty --abbrev=12 2>/dev/null || echo devel)
MODULE := github.com/tokenscope/tokenscope
LDFLAGS := -s -w -X $(MODULE)/instrument.version=$(VERSION)
BUILDFLAGS := -trimpath -ldflags '$(LDFLAGS)'

# Everything that is fetched or built once and is not part of the repository.
TOKENSCOPE_CACHE ?= $(HOME)/.cache/tokenscope
export TOKENSCOPE_CACHE

# The pinned compiler of the BPF objects and shim libraries, in an environment of its own.
# gen.sh is the one place that says which.
ZIG_RELEASE = $(shell sed -n 's/^pinned=//p' probes/ebpf/gen.sh)
ZIG_ENV = $(TOKENSCOPE_CACHE)/tools/ziglang-$(ZIG_RELEASE)

# Tools that `go run` fetches; pinned, so that a new release does not change a verdict.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

# Extra flags for go test, e.g. TESTFLAGS=-v
TESTFLAGS ?=
PACKAGES ?= ./...
BENCH ?= .
FUZZTIME ?= 10s

.DEFAULT_GOAL := help

##@ Use

.PHONY: build
build: ## build bin/instrument (static, for this machine)
	$(GO) build $(BUILDFLAGS) -o bin/ ./cmd/...

.PHONY: demo
demo: build ## show span trees: of a recording at once, then of a small real vLLM (sets it up; root)
	examples/vllm-cpu/demo.sh "$(CURDIR)/bin/instrument"

##@ Test

.PHONY: test
test: ## unit and replay tests: no privileges, no vLLM, no network once modules are there
	$(GO) test $(TESTFLAGS) $(PACKAGES)

.PHONY: e2e
e2e: ## end-to-end tests with a real vLLM and a real Collector (root; sets both up; about 10 minutes)
	$(GO) test -tags e2e -count=1 -timeout 40m $(TESTFLAGS) ./instrument/e2e

.PHONY: places
places: ## tests in throw-away roots (old and new glibc, musl) and the shapes of the examples' containers (root)
	$(GO) test -tags e2e -count=1 -timeout 20m $(TESTFLAGS) ./bootstrap/e2e ./examples
	TOKENSCOPE_DIST='$(wildcard $(CURDIR)/dist)' $(GO) -C examples/validate test -tags e2e -count=1 -timeout 20m $(TESTFLAGS) ./...

.PHONY: bench
bench: ## benchmarks, with allocations (BENCH=pattern, PACKAGES=./…)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $(TESTFLAGS) $(PACKAGES)

# go test fuzzes one target of one package at a time.
.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (default 10s) each
	@for package in $$($(GO) list $(PACKAGES)); do \
		for target in $$($(GO) test -list '^Fuzz' "$$package" | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -parallel 1 "$$package"; \
		done; \
	done

.PHONY: lint
lint: ## gofmt, go vet (end-to-end tests included), staticcheck, shell syntax
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags e2e ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) -C installer/dist vet -tags e2e ./...
	$(GO) -C examples/validate vet -tags e2e ./...
	$(GO) -C examples/validate run $(STATICCHECK) -tags e2e ./...
	$(GO) -C installer/dist run $(STATICCHECK) -tags e2e ./...
	@for script in .ci/run $$(git ls-files -- '*.sh'); do bash -n "$$script"; done

.PHONY: vulncheck
vulncheck: ## known vulnerabilities in what is really called (needs the network)
	$(GO) run $(GOVULNCHECK) ./...

##@ Release

# A module of its own: see installer/dist/go.mod. The folder is made anew: no old artefact stays.
.PHONY: dist
dist: ## make everything that is released into dist/: wheels, tar.gz, .deb, image, SBOMs, checksums
	rm -rf dist
	$(GO) -C installer/dist run . --root '$(CURDIR)' --out '$(CURDIR)/dist' --version '$(VERSION)' --ldflags '$(LDFLAGS)'

.PHONY: dist-check
dist-check: ## make HEAD's release from two clones and compare (some minutes)
	installer/dist/check.sh

.PHONY: dist-test
dist-test: ## tests of the maker
	$(GO) -C installer/dist test $(TESTFLAGS) ./...

.PHONY: dist-e2e
dist-e2e: dist ## install, run and remove what make dist made: pip, dpkg, tar, a container (root)
	TOKENSCOPE_DIST='$(CURDIR)/dist' $(GO) -C installer/dist test -tags e2e -count=1 -timeout 10m $(TESTFLAGS) ./e2e

##@ Generated files

$(ZIG_ENV)/bin/python:
	rm -rf "$(ZIG_ENV)"
	python3 -m venv "$(ZIG_ENV)"
	"$(ZIG_ENV)/bin/pip" install --quiet --disable-pip-version-check "ziglang==$(ZIG_RELEASE)" || { rm -rf "$(ZIG_ENV)"; exit 1; }

.PHONY: generate
generate: $(ZIG_ENV)/bin/python ## make the committed generated files again (installs the pinned compiler)
	PYTHON="$(ZIG_ENV)/bin/python" $(GO) generate ./...

.PHONY: check-generated
check-generated: $(ZIG_ENV)/bin/python ## fail where a committed generated file is not what its source gives
	PYTHON="$(ZIG_ENV)/bin/python" probes/ebpf/gen.sh --check
	PYTHON="$(ZIG_ENV)/bin/python" probes/preload/gen.sh --check

##@ Other

.PHONY: clean
clean: ## remove what was built (the cache folder stays: rm -r $(TOKENSCOPE_CACHE))
	rm -rf bin dist .dist-*

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
