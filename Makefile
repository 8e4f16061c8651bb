# Needs Python 3.11 or later, git and make; everything else is installed into $(VENV).

PYTHON ?= python3
VENV ?= .venv
PEERS ?= .venv-peers
FLOORS ?= .venv-floors
WORKERS ?= 2
PAPER ?= reproduction
PART ?=
STUDY ?= compare

BIN = $(VENV)/bin
INSTALLED = $(VENV)/.installed
PEERS_INSTALLED = $(PEERS)/.installed
PYTEST = $(BIN)/python -m pytest
PIP = $(BIN)/python -m pip --quiet --disable-pip-version-check
# uv downloads in parallel and compiles no bytecode; where it fails or cannot be had, pip installs.
INSTALL = install() { $(BIN)/uv pip install --quiet --python $(BIN)/python "$$@" || $(PIP) install "$$@"; }; install
# An editable install builds the core with the tools of its environment, again when sources change.
BUILD_TOOLS = "cmake>=3.18" editables "hatchling>=1.26" "nanobind>=2.4" "ninja>=1.11" "numpy>=2" "scikit-build-core>=0.12"
CORE = CMakeLists.txt $(wildcard src/core/*)
# Where tests make and sync thousands of small files: in memory if it has room, and runs programs.
MEMORY = $(shell $(PYTHON) -c "import os; s = os.statvfs('/dev/shm'); \
	print('/dev/shm' * (s.f_bavail * s.f_frsize > 2**30 and not s.f_flag & os.ST_NOEXEC))" 2>/dev/null)
# Every warning is an error, and so is every reference that leads nowhere.
SPHINX = $(BIN)/python -m sphinx -q -n -W --keep-going
# Everything that the package can use, and tests that use each of it.
FLOOR_EXTRAS = arviz,dask,gym,logs,pandas,polars,progress,sklearn
FLOOR_TESTS = tests/oracles/test_linear_bernoulli.py serve/tests/contracts/test_store_clicks.py \
	tests/unit/test_tables.py tests/unit/test_progress.py tests/unit/plots/test_prior.py \
	tests/unit/bridges/test_arviz.py tests/unit/bridges/test_sklearn.py tests/unit/bridges/gym/test_player.py \
	tests/unit/engines/test_engines.py tests/unit/logs/test_read.py tests/unit/pages/test_document.py \
	serve/tests/unit/http/test_endpoints.py serve/tests/unit/http/test_server.py \
	serve/tests/unit/test_client.py
TESTS_OF_mixts = tests
TESTS_OF_serve = serve/tests
TESTS_OF_paper = paper/tests
EXAMPLES = tests/end_to_end/test_documents.py tests/end_to_end/test_docstrings.py

# Keep the bytecode of modules: tests start hundreds of processes that import them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install paper policies check test slow floors coverage bench docs package format clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

install: $(INSTALLED) ## Make the environment: the project, editable, and its tools

paper: $(INSTALLED) ## Every experiment of the paper and beyond it, with figures and a report, in reproduction/
	$(BIN)/mixts reproduce --out $(PAPER)

policies: $(INSTALLED) ## Compare policies; with MOVIELENS=folder and FEATURES=file on real data too
	$(BIN)/python -m mixts_paper.studies.policies $(STUDY) --workers $(WORKERS) \
		$(if $(MOVIELENS),--movielens "$(MOVIELENS)") $(if $(FEATURES),--features "$(FEATURES)")

check: $(INSTALLED) ## Lint, format, types, layers, links, and the examples of documents and docstrings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(SPHINX) -b dummy -t check -d build/docs-check docs build/docs-check
	$(PYTEST) -q -n $(WORKERS) $(EXAMPLES)

test: $(INSTALLED) ## Every test that is not slow; PART=mixts|serve|paper: one part, SEED=7: in a random order
	TMPDIR="$(or $(TMPDIR),$(MEMORY),/tmp)" $(PYTEST) -q -n $(WORKERS) --dist worksteal \
		$(if $(SEED),-p pytest_randomly --randomly-seed=$(SEED)) \
		-m "not slow" $(addprefix --ignore ,$(EXAMPLES)) $(TESTS_OF_$(PART))

slow: $(INSTALLED) ## The tests that take minutes, and whether tests notice deliberate faults
	$(INSTALL) "pyspark>=3.5"
	$(PYTEST) -q -n $(WORKERS) -m slow
	$(BIN)/python -m tests.faults

floors: ## Install the lowest versions that pyproject.toml allows, and run tests that use them
	$(PYTHON) -m venv --clear $(FLOORS)
	$(FLOORS)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(FLOORS)/bin/uv pip install --quiet --python $(FLOORS)/bin/python \
		--resolution lowest-direct --editable ".[$(FLOOR_EXTRAS)]" \
		--editable "./serve[postgres]" --editable ./paper
	$(FLOORS)/bin/uv pip install --quiet --python $(FLOORS)/bin/python \
		beartype hypothesis jaxtyping polyagamma pytest
	$(FLOORS)/bin/python -m pytest -q -m "not slow" -o filterwarnings=default --disable-warnings $(FLOOR_TESTS)

coverage: $(INSTALLED) ## Every test that is not slow, and the lines that none of them runs
	$(PYTEST) -q -n $(WORKERS) -m "not slow" --cov

bench: $(INSTALLED) $(PEERS_INSTALLED) ## Time decisions beside other libraries
	$(BIN)/python benchmarks/run.py --peers $(PEERS)/bin/python

docs: $(INSTALLED) ## Build the documentation site in site/; open site/index.html
	$(SPHINX) -d build/docs docs site

package: $(INSTALLED) ## Build the sdists and wheels of the three packages in dist, and check their metadata
	rm -rf dist
	for part in . serve paper; do $(BIN)/python -m build --no-isolation --outdir dist $$part || exit 1; done
	$(BIN)/twine check --strict dist/*

format: $(INSTALLED) ## Format the code and mend what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove the environments, the caches and what was built
	rm -rf $(VENV) $(PEERS) $(FLOORS) build dist site docs/api/generated docs/gallery htmlcov .coverage .coverage.* .hypothesis \
		.import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src serve paper tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml serve/pyproject.toml paper/pyproject.toml $(CORE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	-$(PIP) install uv
	$(INSTALL) $(BUILD_TOOLS)
	$(INSTALL) --no-build-isolation --editable ".[dev]" --editable "./serve[postgres]" --editable "./paper[studies]"
	@$(BIN)/python -c "from mixts import _program; print('mixts: the', 'plain program, for want of a C++ compiler' if _program.core is None else 'compiled core')"
	@touch $@

$(PEERS_INSTALLED): benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
		--requirement benchmarks/peers.txt
	@touch $@
