# Two commands, on a machine with git and Python 3.11 or newer: `make train` and `make test`.
ARGS ?=
ifndef PYTHON
PYTHON := $(shell for name in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$name; break; }; done)
endif
RUN := .venv/bin/python
# A machine that sets this has each process compile thousands of files again, which takes half of a short run.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: train test test-all test-slurm test-processors setup check quick-check docs lock format release

train: setup  ## the main job; settings follow as in `make train ARGS="algorithm=grpo seed=1"`
	@$(RUN) -m isentropic.train experiment=quickstart $(ARGS)

PYTEST = OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(RUN) -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

# Pyright keeps one core busy for half a minute, and the tests now and then leave one idle: it goes beside them and speaks last.
beside_types = echo "pytest, and pyright beside it"; \
	$(TYPES) > .venv/pyright.txt & types=$$!; trap "kill $$types" INT TERM; \
	code=0; $(PYTEST) $(1) $(ARGS) || code=$$?; \
	wait $$types || code=$$?; echo "pyright"; cat .venv/pyright.txt; exit $$code

test: quick-check  ## static checks, and the tests but for the slow ones; `make test ARGS="tests/algorithm"` for some
	@$(call beside_types,-m "not slow and not slurm")

# The slow ones wait for servers, jobs and clocks a quarter of the time: a third worker keeps two cores busy.
test-all: quick-check  ## static checks, and every test but those of SLURM; `COVERAGE=1` for which lines they reach
	@$(call beside_types,--numprocesses 3)

test-slurm: setup  ## sweeps and requeues on a real SLURM, which this machine plays; as root, with slurm-wlm and munge installed
	@OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(RUN) -m pytest -m slurm -rs tests/slurm $(ARGS)

test-processors: setup  ## what compares numbers, with the kernels of each kind of processor, 1, 2 and 4 threads, and at a load
	@$(RUN) tests/processors.py $(ARGS)

TYPES = $(RUN) -m pyright --pythonpath $(RUN)

check: quick-check  ## what the pre-commit hook runs
	@echo "pyright"
	@$(TYPES)

quick-check: setup
	@echo "ruff"
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@echo "import contracts"
	@$(RUN) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

setup:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer was found; install one, or name it: make setup PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) requirements/install.py

format: setup
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

DOCS := .venv/docs
SITE ?= site

docs: $(DOCS)/installed  ## the site, into site/<version>; SITE=FOLDER puts this version beside others there
	@$(DOCS)/bin/python docs/site/build.py $(SITE)

$(DOCS)/installed: requirements/docs.lock
	@echo "Setting up $(DOCS)"
	@$(PYTHON) -m venv --clear $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement $<
	@touch $@

release: setup  ## dist/: sdist, wheel, what they hold and hashes, tried in a fresh environment; uploads nothing
	@$(RUN) requirements/release.py

UPGRADE ?= --upgrade

# `make lock UPGRADE=` moves only what pyproject.toml and others.in ask to be moved.
lock:  ## resolves pyproject.toml anew, for all platforms and Pythons at once, and for a GPU's image; torch.lock is written by hand
	@echo "resolving"
	@$(PYTHON) -m venv .venv/lock
	@.venv/lock/bin/python -m pip install --quiet uv
	@.venv/lock/bin/uv pip compile pyproject.toml requirements/others.in --extra cpu --extra dev \
		--universal --python-version 3.11 --fork-strategy fewest $(UPGRADE) --generate-hashes \
		--override requirements/left-out.txt --custom-compile-command "make lock" \
		--quiet --output-file requirements/cpu.lock > /dev/null
	@$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")' \
		| .venv/lock/bin/uv pip compile - --universal --python-version 3.11 --fork-strategy fewest $(UPGRADE) \
		--generate-hashes --custom-compile-command "make lock" --quiet --output-file requirements/docs.lock > /dev/null
	@.venv/lock/bin/uv pip compile pyproject.toml --extra cuda --extra lora --extra report --extra tune --extra wandb \
		--python-version 3.12 --python-platform x86_64-manylinux_2_28 $(UPGRADE) --generate-hashes \
		--custom-compile-command "make lock, for the Linux on x86-64 and the Python of Dockerfile and apptainer.def" \
		--quiet --output-file requirements/cuda.lock > /dev/null
