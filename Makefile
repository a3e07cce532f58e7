# Two commands: `make` sets up and runs the pipeline, `make test` sets up and runs the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The folder is rebuilt when the lock changes. It has bytecode: where Python may not write any, every job would translate its imports again.
READY := $(VENV)/.ready
# And where the checkout was moved or copied: what is installed names its folder.
MOVED := $(shell grep -qsF " $(CURDIR)/$(VENV)" $(VENV)/pyvenv.cfg || echo moved)

export UV_PYTHON_DOWNLOADS = never
export UV_NO_PROGRESS = 1

.PHONY: moved all clean setup setup-cluster test check-published lint lock bench image

all: setup
	$(BIN)/snakemake --cores all

setup: $(BIN)/ladder

$(READY): envs/requirements.lock envs/bootstrap.lock $(MOVED)
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if v in ((3, 11), (3, 12)) else f"Error: $(PYTHON) is Python {v[0]}.{v[1]}; expected 3.11 or 3.12. Try: make PYTHON=python3.12")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r envs/bootstrap.lock
	PATH="$(CURDIR)/envs:$$PATH" COMPILER="$(CXX)" CC=parallel-c++ CXX=parallel-c++ \
	  $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r envs/requirements.lock
	touch $@

# the package itself stays in workflow/; nothing is downloaded
$(BIN)/ladder: $(READY) pyproject.toml
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --reinstall --editable .
	touch $@

# what submits to a cluster
setup-cluster: setup
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r envs/cluster.lock

# two files of tests at a time, most of whose time one core is enough for, in the order of tests/conftest.py
test: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# the committed tables, pages, claims and pictures, made again from the published data
check-published: setup
	$(BIN)/python -m pytest -m published tests/published

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check workflow/Snakefile workflow/rules
	$(BIN)/snakemake --lint

# resolve the direct dependencies of pyproject.toml again
lock: setup
	$(BIN)/uv pip compile pyproject.toml --group dev --generate-hashes --universal --python-version 3.11 --upgrade -q -o envs/requirements.lock
	$(BIN)/uv pip compile --group cluster --constraint envs/requirements.lock --generate-hashes --universal --python-version 3.11 --upgrade -q -o envs/cluster.lock

# the times and sizes that the pipeline keeps to
bench: setup
	$(BIN)/python studies/benchmark.py

# what runs have left, but for what is published
clean:
	find results -mindepth 1 -maxdepth 1 ! -name published -exec rm -rf {} +
	rm -rf .snakemake .mypy_cache .ruff_cache .pytest_cache .hypothesis

# the container image of the last commit, with its time on every file
image:
	podman build --tag gemm-ladder --timestamp $$(git log -1 --format=%ct) \
	  --build-arg REVISION=$$(git describe --always --dirty --abbrev=40 --exclude='*') \
	  --build-arg SOURCE=$$(git config --get remote.origin.url) $(IMAGE_ARGS) .
