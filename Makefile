# "make" or "make help" lists the targets.
#   ARGS="..."   passes arguments to pingpong, bench or the tests
#   MPI4GO_TEST_MPIS, MPI4GO_TEST_RANKS   choose what the tests run under

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# Recipes run one after the other: two test runs at once would share the cores.
.NOTPARALLEL:

GO ?= go
GOTOOL := $(GO) tool -modfile=tools/go.mod
ARGS ?=
SCRIPTS := scripts/setup scripts/test-mpis scripts/cuda-openmpi $(addprefix scripts/gpu-check/,build run test.sh) .ci/run scripts/hosts/agent scripts/hosts/test.sh $(addprefix scripts/mpirun/,common.sh openmpi openmpi-ucx mpich mvapich2-gdr slurm.sbatch test.sh)

# Modules of their own, for their dependencies' sake. A user has them beside the library.
MODULES := examples/net metrics/prometheus

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: ## install what the tests and linters need: both MPIs, their headers, shellcheck
	@scripts/setup ci

.PHONY: build
build: ## build everything, and the programs into bin/; needs no MPI
	$(GO) build ./...
	$(GO) build -o bin/ ./cmd/...

.PHONY: pingpong
pingpong: ## install Open MPI if need be, then measure 2 ranks on this machine
	@scripts/setup run
	@mkdir -p bin
	$(GO) build -o bin/pingpong ./cmd/pingpong
	bin/pingpong $(ARGS)

.PHONY: test
test: ## vet, and run all tests, under each MPI that is installed
	@scripts/setup test
	$(GO) vet ./...
	$(GO) test -count=1 -timeout 20m $(ARGS) ./...
	for m in $(MODULES); do (cd $$m && $(GO) vet ./... && MPI4GO_TEST_MPIS=$${MPI4GO_TEST_MPIS-openmpi,mpich} $(GO) test -count=1 -timeout 20m $(ARGS) ./...); done

.PHONY: test-unit
test-unit: ## run only the tests that need no MPI
	MPI4GO_TEST_MPIS=none $(GO) test -count=1 $(ARGS) ./...

.PHONY: test-hosts
test-hosts: ## run the core tests and pingpong on two hosts made of network namespaces; needs root
	@scripts/setup test
	scripts/hosts/test.sh

# The configurations of the CUDA-enabled Open MPI, which have to be there for this.
CUDA_MPIS := openmpi-cuda,openmpi-cuda-noipc,openmpi-cuda-tcp

.PHONY: test-bells
test-bells: ## test with doorbells that never ring, and with a flood of them
	@scripts/setup test
	MPI4GO_TEST_MPIS=openmpi-drop,mpich-flood MPI4GO_TEST_REQUIRE=openmpi-drop,mpich-flood MPI4GO_TEST_RANKS=2 \
		$(GO) test -short -count=1 -timeout 20m $(ARGS) ./coro ./mpicomm ./transport

.PHONY: test-cuda
test-cuda: ## build a CUDA-enabled Open MPI if need be, and test device memory over it and over the others
	@scripts/setup test
	@scripts/cuda-openmpi
	MPI4GO_TEST_MPIS=$(CUDA_MPIS) MPI4GO_TEST_REQUIRE=$(CUDA_MPIS) MPI4GO_TEST_RANKS=2 \
		$(GO) test -count=1 -timeout 20m $(ARGS) ./cmd/pingpong ./examples/columns ./examples/csr ./gpu ./internal/device ./internal/mpitest ./mpicomm ./coro
	MPI4GO_TEST_MPIS=openmpi,mpich MPI4GO_TEST_RANKS=2 $(GO) test -count=1 -timeout 20m $(ARGS) ./cmd/pingpong ./internal/device

.PHONY: gpu-check
gpu-check: ## build the archive that checks device memory on a machine with a GPU and nothing else
	@scripts/gpu-check/build

.PHONY: test-mpis
test-mpis: ## fetch MPICH 5, Open MPI 5 and Intel MPI from PyPI, and run the tests over each
	@scripts/test-mpis $(ARGS)

test-%: ## run all tests on exactly % ranks: make test-3
	@[[ '$*' =~ ^[1-9][0-9]*$$ ]] || { echo "make test-N: N is a number of ranks, not '$*'" >&2; exit 2; }
	@scripts/setup test
	MPI4GO_TEST_RANKS=$* $(GO) test -count=1 -timeout 20m $(ARGS) ./...

.PHONY: race
race: ## run all tests with the race detector
	@scripts/setup test
	$(GO) test -race -count=1 -timeout 20m $(ARGS) ./...

# How many minutes of soak, under each MPI.
SOAK ?= 10

.PHONY: soak
soak: ## have connections come and go for SOAK minutes, under each MPI, with the race detector
	@[[ '$(SOAK)' =~ ^[1-9][0-9]*$$ ]] || { echo "make soak SOAK=N: N is a number of minutes, not '$(SOAK)'" >&2; exit 2; }
	@scripts/setup test
	MPI4GO_TEST_SOAK=$(SOAK)m MPI4GO_TEST_TIMEOUT=$$(($(SOAK) + 5))m \
	MPI4GO_TEST_MPIS=$${MPI4GO_TEST_MPIS-openmpi,mpich} MPI4GO_TEST_RANKS=$${MPI4GO_TEST_RANKS-2} \
		$(GO) test -race -count=1 -v -timeout 0 -run '^TestSoak$$' $(ARGS) ./transport

.PHONY: cgocheck
cgocheck: ## run all tests with the full check of the cgo pointer rules
	@scripts/setup test
	GOEXPERIMENT=cgocheck2 $(GO) test -count=1 -timeout 20m $(ARGS) ./...

.PHONY: gompi
gompi: ## test beside gompi, and build bin/pingpong-gompi, which measures it too
	@scripts/setup ci
	@mkdir -p bin
	mpicc=$$(command -v mpicc.openmpi || echo mpicc); \
	export CGO_CFLAGS="-g -O2 $$($$mpicc --showme:compile)" CGO_LDFLAGS="-g -O2 $$($$mpicc --showme:link)"; \
	$(GO) vet -tags gompi ./examples/gompi ./cmd/pingpong ./bench/compare/peers/gopeer; \
	$(GOTOOL) staticcheck -tags gompi ./examples/gompi ./cmd/pingpong ./bench/compare/peers/gopeer; \
	$(GO) test -tags gompi -count=1 -timeout 20m $(ARGS) ./examples/gompi; \
	$(GO) build -tags gompi -o bin/pingpong-gompi ./cmd/pingpong

.PHONY: lint
lint: ## check formatting, vet, staticcheck, and the shell scripts
	@scripts/setup ci
	@files=$$($(GOTOOL) gofumpt -l .); [[ -z $$files ]] || { printf 'gofumpt would change:\n%s\n' "$$files"; exit 1; }
	$(GO) vet ./...
	$(GOTOOL) staticcheck ./...
	for m in $(MODULES); do (cd $$m && $(GO) vet ./... && $(GO) tool -modfile=$(CURDIR)/tools/go.mod staticcheck ./...); done
	shellcheck -x $(SCRIPTS)

.PHONY: cuda-headers
cuda-headers: ## fetch NVIDIA's cuda.h, which some tests compare our declarations with
	@scripts/setup cuda

.PHONY: bench
bench: ## measure ourselves beside other libraries
	@scripts/setup bench
	$(GO) run ./bench $(ARGS)

.PHONY: compare
compare: ## measure ourselves beside C, mpi4py, MPI4Dask's way, gompi, sockets, Dask, UCX; writes docs/comparison.md
	@scripts/setup ci
	@scripts/setup bench
	$(GO) run ./bench/compare $(ARGS)

.PHONY: bench-check
bench-check: ## say what got slower between two reports of make compare: OLD=... NEW=...
	@[[ '$(OLD)' && '$(NEW)' ]] || { echo "make bench-check OLD=FILE NEW=FILE: two report.json" >&2; exit 2; }
	$(GO) run ./bench/compare check $(ARGS) $(OLD) $(NEW)
