# make run    set up, then cluster a generated graph: progress, scores, a report to open
# make test   set up, then run all tests except the slow ones
# make test-gpu    the tests of the layer and of both networks on a GPU (docs/install.md)
# make test-slow   the slow ones: large datasets, the longer benchmarks
# make fuzz   1,000 damaged inputs of every kind: each is read, or refused by name (docs/development/reliability.md)
# make soak   20 runs of each task, killed at random steps: each is continued to the result of an unbroken one
# make matrix the oldest and the newest versions, and fresh Debians, each made from nothing (gigabytes)
# make bench  the benchmarks (about twenty minutes); make bench-env installs the libraries to compare with
# make release  build the wheel and the source archive, check both, and say how to upload them
# make docs   set up, then build the documentation as a site: open site/index.html
# make lint   set up, then ruff and mypy
# make env    set up only: .venv with the versions of requirements.lock
# make notebook-env  install what the test of the notebook needs (make test-slow)
# make lock   refresh requirements.lock (Python 3.10 to 3.14) after a change of the dependencies in pyproject.toml

# The first that is supported; 3.11 before others, since it is the last with DGL. Each is run: a name on the path may not work.
SUPPORTED := import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))
PYTHON ?= $(shell for name in python3.11 python3 python3.14 python3.13 python3.12 python3.10; do \
	$$name -c '$(SUPPORTED)' 2>/dev/null && { echo $$name; break; }; done)
# Builds of torch without CUDA. make env TORCH_INDEX= takes torch from pip's own index: with CUDA, on Linux.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
BIN := .venv/bin
READY := .venv/.ready
# The datasets beside the checkout, for commands and tests; without them the tests of real data are skipped.
ifneq ($(wildcard ../shared/data),)
export JBPOOL_DATA ?= $(abspath ../shared/data)
endif
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test test-gpu test-slow fuzz soak matrix bench bench-env docs release notebook-env lint env lock clean
.DEFAULT_GOAL := test

env: $(READY)

# The stamp is written last, so that an interrupted set-up starts over and a finished one is not repeated.
# checkout.pth: in the parent of the checkout, import jbpool finds the package and not the checkout's own folder.
$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" && $(PYTHON) -c '$(SUPPORTED)' 2>/dev/null || \
		{ echo "$(if $(PYTHON),$(PYTHON) is not Python 3.10 to 3.14,No Python 3.10 to 3.14 was found): install one (Debian: apt install python3 python3-venv), or make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) cannot make environments: install its venv module (Debian: apt install python3-venv)"; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@test -z "$(TORCH_INDEX)" || $(PIP) --no-deps --retries 0 --index-url $(TORCH_INDEX) $(shell grep '^torch==' requirements.lock) 2>/dev/null || \
		echo "no torch without CUDA at $(TORCH_INDEX): it comes from pip's own index, on Linux with gigabytes of CUDA"
	$(PIP) -r requirements.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@$(BIN)/python -c "import sysconfig; open(sysconfig.get_path('purelib') + '/checkout.pth', 'w').write('$(CURDIR)')"
	@touch $(READY)

run: $(READY)
	$(BIN)/python -m jbpool cluster

# Two workers with one thread each: more threads than cores slow each other down. Each takes whole files, whose tests
# share fixtures. Not loadgroup: xdist 3.8 does not pass the names of groups on with pytest 9.2. A worker that dies ends
# the run: xdist would wait for ever for the tests of its file.
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --max-worker-restart 0

# With the Python of the current environment: which wheels support the GPU depends on the machine.
test-gpu:
	python -m pytest --device cuda

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

fuzz: $(READY)
	OMP_NUM_THREADS=1 MUTANTS=1000 $(BIN)/python -m pytest -n 2 tests/test_fuzz.py

soak: $(READY)
	OMP_NUM_THREADS=1 KILLS=20 $(BIN)/python -m pytest -n 2 tests/engine/test_new_processes.py -k killed_and_resumed

matrix: $(READY)
	$(BIN)/python scripts/qa/matrix.py

# These are not in requirements.lock: torch_scatter is compiled, which takes minutes.
bench-env: $(READY)
	$(BIN)/python -m pip install --disable-pip-version-check igraph
	$(BIN)/python -m pip install --disable-pip-version-check --no-build-isolation torch_scatter
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps torch-geometric-pool==1.0.2

bench: $(READY)
	for name in imports step layer loss epoch scale; do $(BIN)/python scripts/bench/$$name.py || exit 1; done

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@! grep -rlE '(src|rel="stylesheet" href)="https?:' site --include='*.html'      # nothing is loaded from other hosts
	@echo "open site/index.html, or, for the search: python -m http.server -d site, and http://localhost:8000"

# From a clean checkout with the tests green: version, CHANGELOG.md and CITATION.cff name the same release (a test).
release: $(READY)
	$(PIP) build twine
	rm -rf dist
	$(BIN)/python -m build --no-isolation >/dev/null
	$(BIN)/python -m twine check --strict dist/*
	@echo "to upload: $(BIN)/python -m twine upload dist/*, with a token of pypi.org; then git tag v$$($(BIN)/jbpool --version | cut -d' ' -f2) and push the tag"

notebook-env: $(READY)
	$(BIN)/python -m pip install --disable-pip-version-check nbclient ipykernel

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy

# Versions that are in the lock stay: delete a line to have the newest. CUDA's packages are left out: torch's own
# metadata pins them where its build needs them.
lock: $(READY)
	$(PIP) uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --no-header --no-annotate --extra dev --output-file requirements.lock pyproject.toml
	grep -vE '^(cuda-|nvidia-|triton==)' requirements.lock > requirements.tmp && mv requirements.tmp requirements.lock

clean:
	rm -rf .venv site dist build .pytest_cache .ruff_cache .mypy_cache .hypothesis *.egg-info
