# Two commands: `make` sets up and runs the pipeline, `make test` sets up and runs the quick tests.
# the first of these that will do; PYTHON=/path/to/python names another
PYTHON ?= $(shell for it in python3 python3.14 python3.13 python3.12 python3.11; do $$it -c '$(SUITS)' 2>/dev/null && echo $$it && break; done)
SUITS := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
VENV := .venv
EXTRAS := --extra cuda
BIN := $(VENV)/bin
# The folder is rebuilt when the lock changes.
READY := $(VENV)/.ready
DEV := $(VENV)/.dev
# And where the checkout was moved or copied: what is installed names its folder.
MOVED := $(shell grep -qsF " $$(pwd -P)/$(VENV)" $(VENV)/pyvenv.cfg || echo moved)

export UV_PYTHON_DOWNLOADS = never
export UV_NO_PROGRESS = 1
# Two set-ups share uv's cache, and one waits while the other compiles PyCUDA, which takes a busy machine longer than uv's 300 s.
export UV_LOCK_TIMEOUT = 3600
# Without bytecode, every process of a run or a test would translate the package again.
unexport PYTHONDONTWRITEBYTECODE

# A test without a marker is a quick test. pyproject.toml has the markers of the others.
PYTEST := $(BIN)/python -m pytest --durations=10
# Two processes, with the groups and the order of tests/conftest.py.
TWO := -n 2 --no-loadscope-reorder
# Environments on top of .venv. Slurm's plugin makes every start of Snakemake a second slower; the other has Snakemake's oldest version.
CLUSTER := .venv-cluster
OLDEST := .venv-oldest
STALE := test_pipeline or nothing or limits or timed or script or brackets or compiled

.PHONY: moved all redraw clean wheel setup setup-dev setup-cluster setup-cutlass setup-triton lint lock bench image picture
.PHONY: test test-all test-machine test-container test-slurm test-oldest check-published
# one stage after another, even with `make -j`: they share the cores
.NOTPARALLEL:

# exit code 4: all of it was made before
all: setup
	@$(BIN)/snakemake --cores all || [ $$? -eq 4 ]

setup: $(BIN)/ladder

# What the path of the checkout may not have: Python makes no environment below a colon, its commands' first lines would take a backslash
# for an escape, and Snakemake takes braces for wildcards.
REFUSED := $(strip $(foreach it,: { } \,$(findstring $(it),$(CURDIR))))

# Packages of the lock, first from uv's cache alone: then no index is asked, and PyCUDA, which is published as source only, is not compiled again.
# With bytecode: where Python may not write any, every job would translate its imports again.
define INSTALL
install() { $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -c envs/requirements.lock $(1) "$$@"; } && \
  export PATH="$$PWD/envs:$$PATH" CC=parallel-c++ CXX=parallel-c++ && { install --offline 2> $(VENV)/.offline || install; } && \
  packages=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && sh envs/trim "$$packages" && \
  { $(BIN)/python -m compileall -q -j 0 -x '/tests/' "$$packages" workflow/ladder > $(VENV)/.not-compiled || true; }
endef

define NO_PYTHON
PYTHON: got $(or $(PYTHON),none); expected Python 3.11 to 3.14. To get one:
  Debian 12 or later, Ubuntu 24.04 or later: apt-get install python3-venv python3-dev
  elsewhere, with uv and without root: uv python install 3.13 && make PYTHON="$$(uv python find 3.13)"
endef

$(READY): export COMPILER = $(CXX)
$(READY): envs/requirements.lock envs/bootstrap.lock $(MOVED)
	$(if $(REFUSED),$(error $(CURDIR): got a path with $(REFUSED); expected one without : { } and \: move or rename the folder))
	$(if $(shell $(PYTHON) -c '$(SUITS)' && echo yes),,$(error $(NO_PYTHON)))
	@echo "Installing the packages of envs/requirements.lock into $(VENV): about 90 s, of which PyCUDA's compiler takes most"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r envs/bootstrap.lock
	@$(BIN)/uv pip uninstall --quiet --python $(BIN)/python pip setuptools
	@$(call INSTALL,-r pyproject.toml $(EXTRAS))
	@touch $@

$(DEV): $(BIN)/ladder
	@echo "Installing what the tests need into $(VENV): about 20 s"
	@$(call INSTALL,-r pyproject.toml --extra dev)
	@touch $@

# the package itself stays in workflow/; nothing is downloaded
$(BIN)/ladder: $(READY) pyproject.toml envs/start.py
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --reinstall --editable .
	@packages=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
	cp envs/start.py "$$packages/gemm_ladder_start.py" && echo 'import gemm_ladder_start' > "$$packages/gemm_ladder_start.pth"
	@touch $@

# what tests and `make lint` need
setup-dev: $(DEV)

# One file for other folders and machines: the package, with its home as a folder of it. Of the published data it has what `ladder compare` reads.
BUILT := $(VENV)/wheel
HOME_IN := $(BUILT)/workflow/ladder/home
DIST := dist
wheel: setup
	rm -rf $(BUILT) && mkdir -p $(HOME_IN)
	cp -r --parents pyproject.toml LICENSE README.md workflow/ladder workflow/snakemake_logger_plugin_ladder $(BUILT)
	cp -rL --parents config kernels envs/*.lock workflow/[!l]* results/published/repeat-*.csv $(wildcard AGENTS.md) $(HOME_IN)
	git describe --always --dirty --abbrev=40 --exclude='*' > $(HOME_IN)/REVISION || true
	$(BIN)/uv build --quiet --wheel --offline --out-dir $(DIST) $(BUILT)

# The published tables and figures, drawn again and compared with their checksums, in an environment without CUDA.
redraw:
	$(MAKE) setup VENV=.venv-redraw EXTRAS=
	.venv-redraw/bin/snakemake --cores all published

# what submits to a cluster
setup-cluster: setup
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r envs/cluster.lock

# CUTLASS and CuTe for kernels with `uses: [cutlass]`; headers only, so without the package's dependencies
setup-cutlass: setup
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r envs/cutlass.lock

# Triton in an environment of its own, without a GPU and without torch
setup-triton: .venv-triton/.ready

.venv-triton/.ready: $(BIN)/ladder envs/triton.lock
	$(BIN)/python -m venv --clear --without-pip .venv-triton
	$(BIN)/uv pip install --quiet --compile-bytecode --python .venv-triton/bin/python --no-deps --require-hashes -r envs/triton.lock
	touch $@

# the quick tests
test: $(DEV)
	$(PYTEST) $(TWO)

# Real ratios, cold caches and BLAS threads need an idle machine: these tests report, and never fail a build.
test-machine: $(DEV)
	-$(PYTEST) -m machine

# the image, built and run; needs root, Podman and mmdebstrap
test-container: $(DEV)
	$(PYTEST) -m container tests/container

# the pipeline on a Slurm that the tests start; needs root, slurm-wlm and munge
test-slurm: $(CLUSTER)/.ready
	$(CLUSTER)/bin/python -m pytest tests/workflow/test_partitions.py -k profile_plans -m "not machine"
	$(CLUSTER)/bin/python -m pytest -m slurm tests/cluster

# The pipeline on the oldest Snakemake that it allows, and one case of each reason for which Snakemake reruns a job.
test-oldest: $(OLDEST)/.ready
	$(OLDEST)/bin/python -m pytest $(TWO) -m "not machine" tests/workflow/test_pipeline.py tests/workflow/test_stale.py -k "$(STALE)"

# .venv is not copied: a .pth file adds its packages to those of a lock. The cluster's has packages of .venv too, in the same version.
# The bytecode is for Snakemake, which imports every plugin at each start.
$(CLUSTER)/.ready $(OLDEST)/.ready: .venv-%/.ready: envs/%.lock $(DEV)
	$(BIN)/python -m venv --clear --without-pip .venv-$*
	$(BIN)/uv pip install --quiet --python .venv-$*/bin/python --no-deps --require-hashes -r envs/$*.lock
	[ $* != cluster ] || $(BIN)/uv pip uninstall --quiet --python .venv-$*/bin/python -r envs/requirements.lock
	packages=$$(.venv-$*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' > "$$packages/below.pth" && \
	$(BIN)/python -m compileall -q "$$packages"
	touch $@

# The committed tables, pages and claims, made again from the published data, and beside them all published figures.
check-published: CHOSEN := -m published
# All tests that need no GPU, no root and no container, in one session: quick ones too.
test-all: CHOSEN := $(TWO) -m "not machine and not gpu and not slurm and not container"
test-all: setup-cutlass setup-triton
check-published test-all: $(DEV)
	nice $(MAKE) redraw > $(VENV)/.redrawn 2>&1 & \
	$(PYTEST) $(CHOSEN); tested=$$?; wait $$!; drawn=$$?; cat $(VENV)/.redrawn; [ $$tested$$drawn = 00 ]

# The front page's picture of the results page that `make redraw` writes; needs Debian's chromium.
picture:
	chromium --headless=new --no-sandbox --hide-scrollbars --window-size=1000,768 --virtual-time-budget=10000 \
	  --screenshot=docs/img/results_page.png "file://$(CURDIR)/results/redrawn/index.html"

# Words for which the field has better ones; quoted sessions may have them.
WORDS := envs/words.txt
lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow/Snakefile workflow/rules
	$(BIN)/snakemake --lint
	$(BIN)/codespell
	$(BIN)/codespell --dictionary $(WORDS) --regex "(?i)\b($$(sed 's/->.*//' $(WORDS) | paste -sd '|'))\b" \
	  --ignore-multiline-regex '```console.*?```' README.md CONTRIBUTING.md AGENTS.md config docs

# resolve the direct dependencies of pyproject.toml again
lock: setup
	$(BIN)/uv pip compile pyproject.toml --extra cuda --extra dev --generate-hashes --universal --python-version 3.11 --upgrade -q -o envs/requirements.lock
	$(BIN)/uv pip compile --group cluster --constraint envs/requirements.lock --generate-hashes --universal --python-version 3.11 --upgrade -q -o envs/cluster.lock
	$(BIN)/uv pip compile --group cutlass --no-deps --generate-hashes --universal --python-version 3.11 --upgrade -q -o envs/cutlass.lock
	$(BIN)/uv pip compile --group oldest --no-deps --generate-hashes --universal --python-version 3.11 --upgrade -q -o envs/oldest.lock
	$(BIN)/uv pip compile --group triton --no-deps --generate-hashes --universal --python-version 3.11 --upgrade -q -o envs/triton.lock

# how each stage grows with the campaign, and the times and sizes that the pipeline keeps to
bench: setup
	$(BIN)/python studies/growth.py
	$(BIN)/python studies/benchmark.py

# what runs have left, but for what is published
clean:
	find results -mindepth 1 -maxdepth 1 ! -name published -exec rm -rf {} +
	rm -rf .snakemake .mypy_cache .ruff_cache .pytest_cache .hypothesis

# the container image of the last commit, with its time on every file
image:
	podman build --tag gemm-ladder --timestamp $$(git log -1 --format=%ct) \
	  --build-arg CREATED=$$(git log -1 --format=%cI) \
	  --build-arg REVISION=$$(git describe --always --dirty --abbrev=40 --exclude='*') \
	  --build-arg VERSION=$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml) \
	  --build-arg SOURCE=$$(git config --get remote.origin.url) $(IMAGE_ARGS) .
