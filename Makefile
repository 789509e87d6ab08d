# `make demo` and `make test` work on a machine with Python 3.11 and pip, and nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# google-adk has an environment of its own: it wants older versions of what is used here, and nothing
# else may come to need it. Its types stand apart, so that those of its dependencies are .venv's.
ADK := $(VENV)/adk/.installed
# What `make bench` compares with: google-adk, and Temporal's plugin for it.
PEERS := $(VENV)/peers/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo test test-runtime test-server test-google test-ops test-cli test-thorough test-all explore check fmt bench bench-scale dist lock simulate matrix pins mutants chaos chaos-crowd chaos-long clean

help: ## Say what there is to make
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

install: $(STAMP) $(ADK) ## Make .venv with the package and all tools

$(VENV):
	mkdir $(VENV)

$(STAMP): pyproject.toml | $(VENV)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "durable_adk needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $(STAMP)

# A process that may not keep bytecode compiles all that it imports, and tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

$(ADK): pyproject.toml | $(VENV)
	$(PYTHON) -m venv $(VENV)/adk
	$(VENV)/adk/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(VENV)/adk/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[adk]' --group adk
	mkdir -p $(VENV)/adk/types/google
	ln -sfn $$($(VENV)/adk/bin/python -c 'import google.adk; print(google.adk.__path__[0])') $(VENV)/adk/types/google/adk
	@touch $(ADK)

$(PEERS): pyproject.toml | $(STAMP)
	$(PYTHON) -m venv $(VENV)/peers
	$(VENV)/peers/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(VENV)/peers/bin/python -m pip install --quiet --disable-pip-version-check --group peers
	@touch $(PEERS)

demo: $(STAMP) ## Watch an agent survive the SIGKILL of its worker
	@$(BIN)/durable-adk demo

# The gate is test, test-thorough, test-all and chaos: nothing in it is drawn, so that a failure is due
# to a change. What it takes is in tests/support/seeds.py; `make explore` draws other things.

# Tests wait for half of their time: on two cores, six processes are done sooner than two. Each has
# servers of its own, and takes a gigabyte. tests/conftest.py puts the longest files first.
PROCESSES ?= 6
PYTEST = $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder

test: $(STAMP) ## Run the tests that a change needs, in less than five minutes
	$(PYTEST) -m "not thorough" --hypothesis-profile=quick

# The tests of one wing (docs/know/architecture.md); `make test-all` runs those of all.
OF_SERVER := tests/server
OF_GOOGLE := tests/interop tests/adk
OF_OPS := tests/unit/ops $(wildcard tests/integration/test_doctor*.py tests/integration/test_erasure*.py \
	tests/integration/test_codec*.py)
OF_CLI := tests/unit/cli $(wildcard tests/integration/test_cli*.py tests/integration/test_de[mv]*.py)
OF_RUNTIME := $(wildcard tests/unit/*.py) $(filter-out tests/unit/cli/ tests/unit/ops/ tests/unit/__pycache__/,$(wildcard tests/unit/*/)) \
	$(filter-out $(OF_OPS) $(OF_CLI),$(wildcard tests/integration/*.py)) tests/scenarios tests/replay

test-runtime: $(STAMP) ## Run the tests of the runtime alone
	$(PYTEST) $(OF_RUNTIME) -m "not thorough" --hypothesis-profile=quick

test-server: $(STAMP) ## Run the tests of the server, its protocols and its page
	$(PYTEST) $(OF_SERVER) --hypothesis-profile=quick

test-google: $(STAMP) $(ADK) ## Run the tests of google-adk's objects, and those beside google-adk
	$(PYTEST) $(OF_GOOGLE) --hypothesis-profile=quick

test-ops: $(STAMP) ## Run the tests of the operators' tools
	$(PYTEST) $(OF_OPS) --hypothesis-profile=quick

test-cli: $(STAMP) ## Run the tests of the command line
	$(PYTEST) $(OF_CLI) --hypothesis-profile=quick

test-thorough: $(STAMP) $(ADK) ## Run the others: process kills, outages, every mode, all histories
	$(PYTEST) -m "thorough or property"

# Beside three others a test may be late. One that fails by itself, too, fails the run; so does what
# is found in set-up and at the end, such as a history that does not replay (tests/conftest.py).
test-all: $(STAMP) $(ADK) ## Run all tests, with a fifth of the examples of properties
	$(PYTEST) --hypothesis-profile=quick || { test $$? -eq 1 && $(BIN)/python -m pytest --hypothesis-profile=quick --last-failed --last-failed-no-failures none; }

SECONDS ?= 600

explore: $(STAMP) $(ADK) ## Draw faults, samples and examples for SECONDS=600, or again with SEED=
	$(BIN)/python -m tests.explore --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

DOCUMENTS := $(wildcard *.md) docs

check: $(STAMP) $(ADK) ## Lint, check formatting, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mdformat --check $(DOCUMENTS)
	$(BIN)/pyright
	$(BIN)/lint-imports

fmt: $(STAMP) ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/mdformat $(DOCUMENTS)

bench: $(STAMP) $(PEERS) ## Measure, beside google-adk and Temporal's plugin for it
	$(BIN)/python -m benchmarks.turn
	$(BIN)/python -m benchmarks.graph
	$(BIN)/python -m benchmarks.session
	$(BIN)/python -m benchmarks.streaming
	$(BIN)/python -m benchmarks.takeover
	$(BIN)/python -m benchmarks.reaction
	$(BIN)/python -m benchmarks.growth
	$(BIN)/python -m benchmarks.neighbour
	$(BIN)/python -m benchmarks.http_server
	$(BIN)/python -m benchmarks.one_user
	DURABLE_ADK_TESTS_BOUNDS=1 DURABLE_ADK_TESTS_SAMPLE=all $(BIN)/python -m pytest -q -m bounded

bench-scale: $(STAMP) ## How throughput grows with workers, and what ends it
	$(BIN)/python -m benchmarks.scale

CAMPAIGN := $(BIN)/python -W ignore:XDG_RUNTIME_DIR -m campaign
HOURS ?= 3

# One after the other takes 350 s here, beside each other 450: workers that are late are taken for
# dead, and their work is done again. The second one runs whatever the first one finds.
chaos: $(STAMP) ## A minute of real faults on each store, always the same, and the auditor
	$(CAMPAIGN) --seed 412583 --store sqlite --seconds 60; passed=$$?; \
	$(CAMPAIGN) --seed 307468 --store postgres --seconds 60 && exit $$passed

chaos-crowd: $(STAMP) ## 500 invocations on PostgreSQL, four workers and the store killed
	$(CAMPAIGN) --size crowd --store postgres --seconds 180 --gap 2.5 --quiet 400

chaos-long: $(STAMP) ## The same for HOURS=3, and a restored store
	$(CAMPAIGN) --hours $(HOURS) --restore

simulate: $(STAMP) ## Run each single fault, then random schedules of faults for a minute
	DURABLE_ADK_TESTS_SAMPLE=all $(BIN)/python -m pytest tests/simulation -k "single_fault" --numprocesses 2
	$(BIN)/python -m simulation --seconds 60 --jobs $$(getconf _NPROCESSORS_ONLN)

matrix: $(STAMP) ## Kill, stop and fail at every failpoint, on both stores
	DURABLE_ADK_TESTS_SAMPLE=all $(BIN)/python -m pytest tests/chaos/test_failpoint_matrix.py

dist: $(STAMP) ## Build wheel and sdist into dist/
	$(BIN)/python -m hatchling build --directory dist --target sdist --target wheel

lock: ## Choose the newest versions within the ranges for deploy/requirements.lock
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet "uv>=0.9,<1"
	$(VENV)/lock/bin/uv pip compile pyproject.toml --all-extras --group build --universal --python-version 3.11 \
		--generate-hashes --upgrade --no-emit-index-url --no-header --no-annotate --quiet \
		--output-file deploy/requirements.lock

pins: $(STAMP) ## Renew what later releases have to understand: shapes, names and histories
	$(BIN)/python -m tests.replay.record

mutants: $(STAMP) ## Show that the simulation notices seeded bugs
	DURABLE_ADK_TESTS_SAMPLE=all $(BIN)/python -m pytest tests/mutants -q

clean: ## Remove .venv, dist and what the demo left
	rm -rf $(VENV) dist .durable-adk
