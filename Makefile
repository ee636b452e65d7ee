# Every target sets up what it needs in .venv; nothing is installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# A second interpreter for the tests of parts; pyenv, where that is what starts it, is told which of its versions.
SECOND ?= PYENV_VERSION=3.13 python3.13
under_313 = @if $(SECOND) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 13))' 2>/dev/null; \
	then nice -n 19 $(MAKE) VENV=.venv-3.13 PYTHON='$(SECOND)' $(1); \
	else echo "no Python 3.13 here, so its tests are left out; name one: make $@ SECOND=/path/to/python3.13"; fi

# Tests of parts, as one folder: pytest goes through it anew for each file that it is given. Of these the ones that are
# about what Pythons differ in and need no kernel.
UNITS := tests --ignore tests/integration
EDGES := aside cli columns constraint_files constraint_writer deaths files grammar guard internals jobs \
	locks marked_readers messages one_meaning parts patience pool prefect_server private_flow public ray_watch \
	readers runfolder scratch secrets terminal tokenizers
EDGE_FILES := $(EDGES:%=tests/test_%.py)

# One of how many slow tests is run.
TURNS ?= 1

# Installing compiles nothing: what is imported is, once. Without its being kept each process would compile it again.
unexport PYTHONDONTWRITEBYTECODE
# As commands do it: kernels for any processor.
export NUMBA_CPU_NAME ?= generic
# All checkouts of a machine share what tests compile: a kernel is kept under the digest of its code.
kernels units integration touched test-slow coverage: export NUMBA_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/concord

.PHONY: help demo test tests check touched kernels units units-313 edges-313 edge-files units-once-compiled integration test-slow coverage docs lint format lock benchmarks lowest picture pages wheel notebook clean

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || \
		{ echo "concord runs on Python 3.11, 3.12 and 3.13, and this is $$($(PYTHON) --version); name one with: make PYTHON=/path/to/python3 ..." >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# The lock names everything, so nothing is resolved: a release newer than it cannot get in the way.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps -r requirements-dev.lock
	@# An environment of before has the package under the name that it had then.
	$(BIN)/python -m pip uninstall --quiet --quiet --yes concord
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY)  ## label a small made-up corpus end to end, and see where everything is (3 minutes with the first install, then 1)
	$(BIN)/python -m concord.flows.cli.demo

# Tests wait for the kernels alone. Units and integration run side by side, though units have all cores: integration
# tests wait half of their time.
test: $(READY)  ## all checks and tests but the slow ones
	$(MAKE) --jobs 3 --output-sync=target lint docs tests

tests: kernels
	$(MAKE) integration units

kernels: $(READY)  ## compile all kernels, once for all tests
	$(BIN)/python infra/warm.py

# They only compute, and leave the processors to tests beside them, which wait for servers and for deadlines.
units: $(READY)  ## tests of parts, without real services, on all cores
	nice -n 19 $(BIN)/python -m pytest -m "not slow" --numprocesses 2 --dist loadfile --durations 30 $(PATIENCE) $(UNITS)

# Since which commit what has changed is checked, with what is not committed yet.
SINCE ?= HEAD~1

check: $(READY)  ## style, types, and those tests of parts that what changed since the last commit can touch: SINCE=COMMIT
	$(MAKE) --jobs 2 --output-sync=target lint touched

touched: $(READY)
	@tests=$$($(BIN)/python -m tests.support.touched $(SINCE)) && if test -z "$$tests"; then echo "no test of parts leads there"; \
	else nice -n 19 $(BIN)/python -m pytest -m "not slow" --numprocesses 2 --dist loadfile $$tests; fi

integration: $(READY)  ## tests with real Ray, Prefect and MLflow, but the slow ones
	$(BIN)/python -m pytest -m "not slow" --durations 15 tests/integration

units-313:  ## tests of parts under Python 3.13, in an environment of its own, where that is found
	$(call under_313,units-once-compiled)

units-once-compiled: kernels
	$(MAKE) units

# All of them take 15 minutes of a processor, with their kernels; what Pythons differ in needs few of these. They run
# beside the slow tests, which go first, and compile as they go: each may take long.
edges-313:  ## those under Python 3.13 that are about signals, threads, imports, text, files and the command line
	$(call under_313,units PATIENCE="--timeout 1500" UNITS="$(EDGE_FILES)")

edge-files:  # for .ci/run, which asks whether one of them changed
	@echo $(EDGE_FILES)

# All of them; with TURNS=3 one of three, others with each commit, and all of files that changed in the last ten.
test-slow: $(READY)  ## the tests that take minutes: every command of the README, schedules, a terminal, MLflow, Prefect and Ray that go away
	$(BIN)/python -m pytest -m slow --in-turn $(TURNS) --numprocesses 2 --dist loadfile --no-loadscope-reorder --durations 30

coverage: $(READY)  ## which lines the tests of parts run; compiled kernels, which Python does not see, are left out
	mkdir -p build
	$(BIN)/python -m coverage run -m pytest $(UNITS)
	$(BIN)/python -m coverage report

docs: $(READY)  ## the site of docs, with the reference of commands, options and the public package, to build/docs
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -d build/doctrees docs build/docs

lint: $(READY)  ## style, types and import order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)  ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Two lists: what develops the project, and the part of it that runs, which the image is built from.
COMPILE := uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

lock: $(READY)  ## pin the newest versions that pyproject.toml allows
	$(BIN)/$(COMPILE) --upgrade --extra delta --extra dev --extra image --extra memory --extra onnx --extra spacy -o requirements-dev.lock
	cp requirements-dev.lock requirements.lock
	$(BIN)/$(COMPILE) --extra image -o requirements.lock

benchmarks: $(READY)  ## measure speed and quality; figures go to benchmarks/results, and into its pages
	$(BIN)/python benchmarks/sweeps.py
	set -e; for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script; done
	$(BIN)/python benchmarks/figures.py

lowest: $(READY)  ## three commands with the lowest versions that pyproject.toml allows, in an environment of its own
	$(BIN)/python infra/lowest.py

picture: $(READY)  ## draw the README's pictures from a real run; one needs a Chromium
	$(BIN)/python docs/picture.py
	$(BIN)/python docs/report_picture.py

wheel: $(READY)  ## build the package with compiled kernels, to build/dist
	$(BIN)/python infra/wheel.py

pages: $(READY)  ## run a night of each kind, and keep what Prefect and MLflow show of them as pictures (needs chromium)
	$(BIN)/python -m tests.integration.operator_pages

notebook: $(READY)  ## run docs/notebook.ipynb on a cluster of two nodes on this machine, and keep its outputs in it
	$(BIN)/python -m tests.integration.notebooks

clean:  ## remove the environment, caches and the demo's output
	rm -rf .venv .venv-3.13 build demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
