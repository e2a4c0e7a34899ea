# Needs python3 (3.11 or newer) and make. Everything else goes into .venv beside this file.
# `make PYTHON=python3.13 setup` picks another interpreter; JOBS=4 gives the tests more processes.

PYTHON ?= python3
# Three processes keep two cores busy: many tests wait for a process or a deadline.
JOBS ?= 3
# Of seeds that nobody has run. To have one again: .venv/bin/python -m tests.simulation --from SEED --seeds 1
SIMULATE_MINUTES ?= 10
# Without bytecode every process of the tests would compile all of them again.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS := --extra plots --extra parquet --extra clouds --extra buckets --extra solvers --extra telemetry --extra dev
PIP := $(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check

# Which tests each target runs, by folder: nothing else decides it. The short kill storm is one of the quick ones; jobs
# that run as real processes, against their limits, are not.
JOB_PROCESSES := tests/unit/workers/node_agent/process
TESTS := tests/unit tests/contract tests/property tests/cases tests/simulation tests/integration/test_kills.py \
  --ignore $(JOB_PROCESSES)
TESTS_INTEGRATION := tests/integration $(JOB_PROCESSES) --ignore tests/integration/test_kills.py
TESTS_DEEP := tests/deep
PYTEST := $(BIN)/pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder $(if $(CI),--durations=30 --durations-min=1)
TYPES := ( $(BIN)/mypy && $(BIN)/lint-imports )

.DEFAULT_GOAL := help
.PHONY: help setup demo up test test-integration test-deep lint format figures notebook docs bench bench-api bench-workers bench-nova kills storm-hosts chaos simulate acceptance jobs lock clean papers

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

setup: $(READY)  ## create .venv with the locked packages (half a minute, once)
	@:

# A .venv without its stamp is the work of a set-up that did not finish: it is made anew. With an old stamp it is
# sound and only brought up to date. Packages come by hash through uv, itself taken by hash from the same lock. It
# trusts the certificates that the machine trusts, as behind a company's proxy it must, and does without its cache where
# it can write none.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "spotfed needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || echo missing)." \
	    "Name another one: make PYTHON=/path/to/python3.12 setup" >&2; exit 1; }
	@if [ -e $(READY) ] && $(BIN)/python -c '' 2>/dev/null; then \
	  echo "setup: bringing $(VENV) up to date"; rm -f $(READY); \
	else \
	  echo "setup: creating $(VENV) with $$($(PYTHON) --version)"; rm -rf $(VENV); \
	  $(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { \
	    echo "setup: no ensurepip here, using the pip of $(PYTHON)"; rm -rf $(VENV); \
	    $(PYTHON) -m venv --without-pip $(VENV); }; \
	fi
	@awk '/^[^ #]/ { uv = /^uv==/ } uv' requirements.lock > $(VENV)/uv.txt
	@awk '/^[^ #]/ { uv = /^uv==/ } !uv' requirements.lock > $(VENV)/rest.txt
	@set -e; pip="$(BIN)/python -m pip --disable-pip-version-check"; \
	$$pip --version >/dev/null 2>&1 || pip="$(PIP)"; \
	$$pip --version >/dev/null 2>&1 || { \
	  echo "setup: $(PYTHON) has neither ensurepip nor pip; install one of them (Debian: python3-venv)" >&2; \
	  exit 1; }; \
	echo "setup: installing the locked packages (about half a minute the first time)"; \
	if $$pip install -q --only-binary :all: --require-hashes -r $(VENV)/uv.txt 2>/dev/null && \
	  cache="$$($(BIN)/uv cache dir)" && \
	  { { mkdir -p "$$cache" && [ -w "$$cache" ]; } 2>/dev/null || export UV_NO_CACHE=1; } && \
	  VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install -q --system-certs --require-hashes -r $(VENV)/rest.txt; then \
	  VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install -q --no-deps --no-build-isolation --editable .; \
	else \
	  echo "setup: uv does not do on this machine, using pip (some minutes)"; \
	  $$pip install -q --require-hashes -r $(VENV)/rest.txt; \
	  $$pip install -q --no-deps --no-build-isolation --editable .; \
	fi
	@rm -f $(VENV)/uv.txt $(VENV)/rest.txt
	@touch $(READY)
	@echo "setup: done"

demo: setup  ## one federation on this machine, start to figures
	@$(BIN)/spotfed demo

up: setup  ## run a federation of simulated clouds and its HTTP API on 127.0.0.1:8000
	@$(BIN)/spotfed up

# Types are checked while the kernels and the tests compile. Tests are compiled once, by a process that only collects
# them, so that the others need not each do it.
test: setup  ## format, lint, types, import contracts and the tests to run before every commit (4 minutes)
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@mkdir -p build
	@$(TYPES) > build/types.log 2>&1 & types=$$!; \
	$(BIN)/python -m tests.support.kernels & kernels=$$!; \
	$(BIN)/pytest --collect-only -qq $(TESTS) > build/tests.log 2>&1; \
	wait $$kernels && $(PYTEST) $(TESTS); tests=$$?; \
	wait $$types; types=$$?; cat build/types.log; exit $$((tests + types))

test-integration: setup  ## real processes, a browser, Slurm, two hosts, and the commands of every page of docs/
	@$(BIN)/python -m tests.support.kernels
	$(PYTEST) $(TESTS_INTEGRATION)

test-deep: setup  ## 200 kills, new seeds of the simulation, the papers' production traces, fuzzed calls, upgrades
	@$(BIN)/python -m tests.support.kernels
	$(BIN)/python -m tests.integration.kill_storm --kills 200
	$(BIN)/python -m tests.simulation --from now --minutes $(SIMULATE_MINUTES) --jobs $(JOBS)
	$(PYTEST) --hypothesis-profile thorough tests/property
	$(PYTEST) $(TESTS_DEEP)

lint: setup  ## the checks that run no test
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(TYPES)

format: setup  ## lay the code out and repair what ruff can
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

figures: setup  ## draw docs/figures anew
	@$(BIN)/python -m tests.integration.docs.figures docs/figures

notebook: setup  ## run the notebook of docs/ anew (needs SPOTFED_DATA)
	@$(BIN)/python -m tests.integration.docs.notebook

docs: setup  ## the site of docs/, with references of commands, HTTP API and library: build/docs/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --config-file docs/site/mkdocs.yml
	@echo "docs: build/docs/index.html"

bench: setup  ## measure kernels and latencies (quiet machine)
	$(BIN)/python -m tests.bench.bench_prediction
	$(BIN)/python -m tests.bench.bench_uniform
	$(BIN)/python -m tests.bench.bench_volatile
	$(BIN)/python -m tests.bench.bench_jobs
	$(BIN)/python -m tests.bench.bench_traces
	$(BIN)/python -m tests.bench.bench_client
	$(BIN)/python -m tests.bench.bench_admission
	$(BIN)/python -m tests.bench.bench_scale
	$(BIN)/python -m tests.bench.bench_workers
	$(BIN)/python -m tests.bench.bench_durable
	$(BIN)/python -m tests.bench.bench_storm
	$(BIN)/python -m tests.bench.bench_kills

bench-workers: setup  ## two Monte-Carlo workers against one (quiet machine, minutes)
	$(BIN)/python -m tests.bench.bench_workers

bench-api: setup  ## single admissions beside a bare FastAPI + Celery application (quiet machine, minutes)
	$(BIN)/python -m tests.bench.bench_api

experiments: setup  ## every experiment, and one page with their pictures: experiments/index.html (half an hour)
	$(BIN)/spotfed experiment all

papers: setup  ## the papers' printed numbers beside ours: experiments/papers.html and the tables of docs/papers.md (half an hour)
	$(BIN)/spotfed experiment papers --page docs/papers.md

NOVA := .venv-nova

# OpenStack's scheduler in an environment of its own; Python 3.11 as nova 34 wants it.
$(NOVA)/.ready: tests/bench/nova/requirements.txt tests/bench/nova/filters.txt tests/bench/nova/setup.sh | $(READY)
	sh tests/bench/nova/setup.sh

bench-nova: setup $(NOVA)/.ready  ## the preemption paper's Figure 2 beside OpenStack's own scheduler (quiet machine, minutes)
	$(BIN)/python -m tests.bench.nova.compare --hosts 24,100,1000,10000

kills: setup  ## kill -9 Redis, owners, Monte-Carlo workers and the API 200 times in a live run, then judge (minutes)
	$(BIN)/python -m tests.integration.kill_storm --kills 200

KILLS ?= 60
SEED ?= 1

storm-hosts: setup  ## kill three hosts KILLS=60 times, drawn from SEED=1, primaries included, then judge (root; half an hour)
	$(BIN)/python -m tests.integration.host_storm --kills $(KILLS) --seed $(SEED)

simulate: setup  ## the federation on virtual time with faults drawn from seeds, for ten minutes
	$(BIN)/python -m tests.simulation --from now --minutes 10 --jobs $(JOBS)

chaos: setup  ## 100,000 simulated seeds and 2,000 kills, with a summary in build/chaos (hours; Ctrl-C and go on later)
	$(BIN)/python -m tests.integration.chaos --jobs $(JOBS)

acceptance: setup  ## the papers' production pairs and the four-cloud federation, whole (minutes; needs SPOTFED_DATA)
	$(BIN)/python -m tests.deep.acceptance.production

jobs: setup  ## 30 batch jobs live on three clouds that evict them, without and with kills (-9), then judged (minutes)
	$(BIN)/python -m tests.deep.acceptance.live_jobs --jobs 30
	$(BIN)/python -m tests.deep.acceptance.live_jobs --jobs 30 --kills

lock: setup  ## resolve the dependencies anew into requirements.lock
	$(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-annotate --no-emit-index-url --no-emit-find-links $(EXTRAS) pyproject.toml -o requirements.lock

clean:  ## remove .venv, caches and build output
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find broker workers cloudsim tests -name __pycache__ -type d -prune -exec rm -rf {} +
