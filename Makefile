# Everything a newcomer types. `make run` and `make test` need Python 3.11 or newer and make, nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The slow ones first, so that neither core is left with one of them at the end.
TESTS := -n 2 --dist loadscope --no-loadscope-reorder tests/pipeline tests/docs tests/stages tests/core

.PHONY: run test test-e2e check ui bench clean constraints mlproject
.DEFAULT_GOAL := run

run: $(READY) ## the whole pipeline on the embedded graph
	$(BIN)/kgcal run

test: $(READY) ## the whole test suite
	$(BIN)/pytest $(TESTS)

test-e2e: $(READY) ## servers on PostgreSQL, a worker, deployments and what becomes of them when something dies
	.ci/postgresql
	$(BIN)/pytest -n 2 --dist loadfile tests/e2e

check: $(READY) ## format, lint, layer rules, types, tests
	.ci/postgresql
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/mypy
	$(BIN)/pytest $(TESTS)
	$(BIN)/pytest -n 2 --dist loadfile tests/e2e

ui: $(READY) ## the MLflow UI on everything that was run
	$(BIN)/kgcal ui

bench: $(READY) ## speeds, as ratios taken in one run
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/corruptions.py
	$(BIN)/python benchmarks/genealogy.py
	$(BIN)/python benchmarks/ranking.py
	$(BIN)/python benchmarks/evaluation.py

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "kgcal needs Python 3.11 or newer: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(READY)

constraints: ## pin anew what a fresh environment resolves to
	rm -rf $(VENV)-pins && $(PYTHON) -m venv $(VENV)-pins
	$(VENV)-pins/bin/python -m pip install --quiet --upgrade setuptools
	$(VENV)-pins/bin/python -m pip install --quiet '.[dev]'
	{ sed -n '/^#/p' constraints.txt; $(VENV)-pins/bin/python -m pip freeze --all --exclude kgcal --exclude pip | sed 's/+cpu$$//'; } > constraints.new
	mv constraints.new constraints.txt && rm -rf $(VENV)-pins

mlproject: $(READY) ## MLproject anew, after a setting or a command has changed
	$(BIN)/python -m flows.cli.project > MLproject.new
	mv MLproject.new MLproject

clean: ## everything that make made, results included
	rm -rf $(VENV) .kgcal
