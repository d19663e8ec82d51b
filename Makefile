# `make run` and `make test` need Python 3.11 or newer and make, nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet
READY := $(VENV)/.ready
# the libraries of PyTorch's CUDA build
CUDA := ^(cuda-|nvidia-|triton==)
# the processes that tests start read the modules that the first of them has compiled
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .ci/in_memory $(BIN)/pytest

# Two workers of pytest share the cores, so each works with one thread. The slow folders come first, so that both cores
# are busy until the end.
TESTS := -n 2 --dist loadscope --no-loadscope-reorder tests/pipeline tests/docs tests/stages tests/core
PAGES := -n 2 --dist loadscope tests/docs -m pages
LONG := -n 2 --dist loadscope tests/pipeline tests/docs tests/stages tests/core -m 'long and not kills'
KILLING := -n 2 --dist loadscope tests/pipeline tests/stages -m kills
# what the tests of other targets do a few times: these variables of the environment say how often, and SEED where
FAULTS := SEED=$(or $(SEED),1) KILLS=$(or $(KILLS),300) DISKS=$(or $(DISKS),20) OUTAGES="$(or $(OUTAGES),5 60 600)" \
	KGCAL_FUZZ=$(or $(KGCAL_FUZZ),1500) ATTACK=$(or $(ATTACK),300)
FAULTY := -n 2 --dist worksteal tests/pipeline/test_outage.py tests/pipeline/test_interruption.py \
	tests/pipeline/test_full_disk.py tests/pipeline/test_serving_limits.py tests/pipeline/test_attacked_server.py \
	tests/pipeline/test_fuzzed_commands.py \
	tests/stages/test_creation.py tests/stages/test_interrupts.py tests/stages/test_leftovers.py tests/stages/test_moved_home.py \
	tests/core/test_mirror.py tests/core/test_bombs.py tests/core/test_tampered.py tests/core/test_extreme_numbers.py \
	tests/core/test_malformed.py tests/core/test_fuzzed_files.py tests/core/test_fuzzed_scores.py

.PHONY: run docs test test-docs test-kills test-faults test-long test-e2e test-mutants test-oldest test-newest check ui bench \
	bench-peers lock audit dist generated clean
.DEFAULT_GOAL := run

run: $(READY) ## run the whole pipeline on a generated graph
	$(BIN)/kgcal run

test: $(READY) ## run all tests but those of the five targets below
	$(PYTEST) $(TESTS) -m 'not pages and not kills and not long'

test-docs: $(READY) ## run every command of README and docs as written
	$(PYTEST) $(PAGES)

docs: $(READY) ## run the notebooks and write the site into site/; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 .ci/in_memory $(BIN)/mkdocs build --strict --quiet

test-kills: $(READY) ## interrupt and kill processes, and go on after it
	$(PYTEST) $(KILLING)

test-faults: $(READY) ## for an hour: kill at random moments, fill disks, stop servers, fuzz; SEED=7 chooses other moments
	$(FAULTS) $(PYTEST) $(FAULTY)

test-long: $(READY) ## run the tests of several pipelines, many processes or many random samples
	$(PYTEST) $(LONG)

test-e2e: $(READY) ## run the end-to-end tests: servers on PostgreSQL, a worker, deployments, a browser, and failures of each
	.ci/postgresql
	.ci/chromium
	.ci/caddy
	$(BIN)/pytest -n 2 --dist loadfile tests/e2e

test-oldest test-newest: $(READY) ## run the tests with the oldest or the newest versions that pyproject.toml allows
	BIN=$(BIN) .ci/ends $(@:test-%=%)
	$(MAKE) test test-long VENV=.venv-$(@:test-%=%)

test-mutants: $(READY) ## change kgcore at random, COUNT times, and print what tests/core does not notice
	$(BIN)/python -m tests.mutants --seed $(or $(SEED),0) --count $(or $(COUNT),40)

check: $(READY) ## check format, lint, layers and types, and run all tests, as CI does
	.ci/postgresql
	.ci/chromium
	.ci/caddy
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/mypy
	$(PYTEST) $(TESTS)
	$(BIN)/pytest -n 2 --dist loadfile tests/e2e

ui: $(READY) ## serve the MLflow UI with all runs
	$(BIN)/kgcal ui

bench: $(READY) ## measure speeds, as ratios taken in one run
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/train.py
	$(BIN)/python benchmarks/large.py --entities 1000000
	$(BIN)/python benchmarks/corruptions.py
	$(BIN)/python benchmarks/genealogy.py
	$(BIN)/python benchmarks/rank.py --dataset family --model transe --model complex --model rotate
	$(BIN)/python benchmarks/score.py --dataset family --model transe --model complex --model rotate
	$(BIN)/python benchmarks/pairs.py --dataset family
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/calibrate.py
	$(BIN)/python benchmarks/startup.py

bench-peers: $(READY) ## measure training beside PyKEEN, AmpliGraph and PyTorch-BigGraph, which pip installs
	$(BIN)/python benchmarks/peers.py --plot docs/images/peers.png

# pip installs only files whose hashes are in requirements.txt, build tools first. A folder of PIP_FIND_LINKS may have
# PyTorch's CPU wheel (torch-cpu.txt): then nothing of the CUDA build is installed.
$(READY): pyproject.toml requirements.txt torch-cpu.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "kgcal needs Python 3.11 or newer: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	grep -E '^(pip|setuptools)==' requirements.txt > $(VENV)/tools.txt
	$(PIP) install --require-hashes --requirement $(VENV)/tools.txt
	if $(PIP) install --require-hashes --no-index --no-deps --requirement torch-cpu.txt 2> $(VENV)/cpu.txt; \
		then grep -vE '$(CUDA)' requirements.txt; \
		else ! grep -A 3 'DO NOT MATCH' $(VENV)/cpu.txt >&2 && cat requirements.txt; fi > $(VENV)/requirements.txt
	$(PIP) install --require-hashes --no-build-isolation --requirement $(VENV)/requirements.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	# Numba compiles the loops of training once: now, so that neither the first run nor two workers of the tests wait
	for loop in "transe --sampling shared" "complex --sampling per_triple"; do \
		KGCAL_HOME=$(abspath $(VENV))/first-training $(BIN)/python benchmarks/train.py \
		--dataset family --model $$loop --eta 20 --k 16 --batch 128 --epochs 2 >/dev/null || exit 1; \
	done
	touch $(READY)

lock: $(READY) ## write requirements.txt, constraints.txt and deploy/requirements.txt anew, with the newest versions
	BIN=$(BIN) .ci/lock

audit: $(READY) ## look for known vulnerabilities of the packages of requirements.txt
	BIN=$(BIN) .ci/audit

dist: $(READY) ## write a release into dist/, install it elsewhere, and write the bill of materials of the environment
	rm -rf build dist
	$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python
	$(BIN)/uv tool run --quiet twine check --strict dist/*
	BIN=$(BIN) .ci/smoke
	$(BIN)/uv tool run --quiet --from cyclonedx-bom cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file "$$(ls dist/*.whl | sed 's/-py3.*/.cdx.json/')" $(BIN)/python

generated: $(READY) ## write MLproject, prefect.yaml and docs/reference/settings.md anew
	$(BIN)/python -m flows.cli.mlproject > MLproject.new
	mv MLproject.new MLproject
	$(BIN)/python -m flows.deployments > prefect.yaml.new
	mv prefect.yaml.new prefect.yaml
	$(BIN)/python docs/scripts/settings.py

clean: ## remove the environment and all results
	rm -rf $(VENV) .venv-oldest .venv-newest site .kgcal
