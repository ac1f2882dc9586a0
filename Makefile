# Every target sets up what it needs; all that must be there is python3 (3.11 or later) and make.
# Debian packages beside Python's are in tests/packages.py.
PYTHON ?= python3
VENV ?= .venv
HTTP ?= 127.0.0.1:8080
# Two for each core: most of the time a test waits for the programs that it has started.
TEST_PROCESSES ?= $(shell expr 2 \* `nproc`)
BIN := $(VENV)/bin
COMMA := ,
# Tests start thousands of programs. None of them is to compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo dashboard notebook test test-32bit deb locks advisories test-deb test-boards image lint docs reference audit proofs mutants bench chaos fuzz clean environment

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(VENV)/.demo ## a fleet of twelve devices on this machine, about two minutes on idle cores
	$(BIN)/python -m demo $(DEMO_OPTIONS)

dashboard: $(VENV)/.dashboard ## the demo, and its page in a browser until Ctrl-C; HTTP=host:port
	$(BIN)/python -m demo --keep --http $(HTTP) --out out/dashboard $(DEMO_OPTIONS)

notebook: $(VENV)/.notebook ## run docs/notebooks/quickstart.ipynb against a fleet, and store its output
	$(BIN)/python -m testbed.notebook_runner $(NOTEBOOK_OPTIONS)

test: $(VENV)/.test ## all tests, on all cores
	@$(BIN)/python tests/packages.py
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n $(TEST_PROCESSES) --dist loadfile \
		--no-loadscope-reorder $(TEST_OPTIONS)

deb: $(VENV)/.deb ## Debian packages of the last commit into out/deb; DEB_OPTIONS="--arch arm64"
	$(BIN)/python -m testbed.debian $(DEB_OPTIONS)

locks: $(VENV)/.deb ## choose the newest versions for the packages, with hashes
	$(BIN)/python -m testbed.debian --lock

advisories: $(VENV)/.deb ## look up known vulnerabilities of the locked versions; needs a network
	$(BIN)/pip-audit --vulnerability-service osv --disable-pip --require-hashes --progress-spinner off \
		$(patsubst %,--requirement %,$(wildcard testbed/debian/locks/*.txt)) $(ADVISORIES_OPTIONS)

test-deb: deb ## follow the tutorial with the packages in minimal Debians, upgrade and remove them, as root
	.ci/test-deb

test-boards: ## install and run the agent on emulated boards, as root; BOARDS="armhf", after make deb for them
	.ci/test-boards $(BOARDS)

image: deb ## OCI images of agent and collector into out/image, as root; needs debootstrap and buildah
	.ci/image

test-32bit: ## the tests of library and agent on a 32-bit Debian, as root; needs debootstrap
	.ci/test-32bit out/i386

lint: $(VENV)/.test ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs ## the documentation as a site, into out/site; checks its generated pages
	$(BIN)/python -m testbed.reference --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

reference: $(VENV)/.docs ## write the pages of docs/reference that are generated from the code
	$(BIN)/python -m testbed.reference

audit: $(VENV)/.demo ## test the privacy promise on this machine
	$(BIN)/pansketch audit $(AUDIT_OPTIONS)

proofs: $(VENV)/.proofs ## prove the theorems of the guarantee, and refute weaker ones
	$(BIN)/python -m proofs

mutants: $(VENV)/.test ## change the privacy-critical modules; MUTANTS_OPTIONS="--module FILE --shard 1/2"
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m testbed.mutation $(MUTANTS_OPTIONS)

bench: $(VENV)/.bench ## measured ratios and errors, into out/bench
	@$(BIN)/python tests/packages.py mosquitto chromium
	$(BIN)/python -m benchmarks $(BENCH_OPTIONS)

chaos: $(VENV)/.demo ## 500 faults in a fleet of twelve devices, and a reconciliation of every release
	@$(BIN)/python tests/packages.py mosquitto openssl libfaketime
	$(BIN)/python -m testbed.chaos $(CHAOS_OPTIONS)

fuzz: $(VENV)/.fuzz ## generated inputs into every parser, a minute for each
	$(BIN)/python -m testbed.fuzz $(FUZZ_OPTIONS)

clean: ## remove the environment and everything that was produced
	rm -rf $(VENV) out var build *.egg-info

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "pansketch needs Python 3.11 or later; try make PYTHON=python3.11" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "no venv module: install it (Debian: apt install python3-venv)" >&2; exit 2; }

environment: pyproject.toml | $(BIN)/python # what several targets need, in one step; EXTRAS="test docs"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(subst $() ,$(COMMA),$(EXTRAS))]'
	@touch $(EXTRAS:%=$(VENV)/.%)

$(VENV)/.%: pyproject.toml | $(BIN)/python
	@echo "installing pansketch[$*] into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@
