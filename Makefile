# Every target sets up what it needs; all that must be there is python3 (3.11 or later) and make.
PYTHON ?= python3
VENV ?= .venv
HTTP ?= 127.0.0.1:8080
BIN := $(VENV)/bin

.PHONY: help demo dashboard notebook test lint audit bench chaos fuzz clean

help: ## say what the targets do
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(VENV)/.demo ## a fleet of twelve devices on this machine, at most two minutes
	$(BIN)/pansketch-demo $(DEMO_OPTIONS)

dashboard: $(VENV)/.dashboard ## the demo, and its page in a browser until Ctrl-C; HTTP=host:port
	$(BIN)/pansketch-demo --keep --http $(HTTP) --out out/dashboard $(DEMO_OPTIONS)

notebook: $(VENV)/.notebook ## runs notebooks/quickstart.ipynb against a fleet, and stores what it shows
	$(BIN)/python -m notebooks.execute $(NOTEBOOK_OPTIONS)

test: $(VENV)/.test ## all tests, on all cores
	$(BIN)/pytest -n auto --dist loadfile $(TEST_OPTIONS)

lint: $(VENV)/.test ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

audit: $(VENV)/.demo ## test the privacy promise on this machine
	$(BIN)/pansketch audit $(AUDIT_OPTIONS)

bench: $(VENV)/.bench ## measured ratios and errors, into out/bench
	$(BIN)/python -m benchmarks $(BENCH_OPTIONS)

chaos: $(VENV)/.demo ## 500 faults in a fleet of twelve devices, and an account of every release
	$(BIN)/python -m chaos $(CHAOS_OPTIONS)

fuzz: $(VENV)/.fuzz ## made-up bytes into everything that reads bytes, a minute for each reader
	$(BIN)/python -m fuzz $(FUZZ_OPTIONS)

clean: ## remove the environment and everything that was produced
	rm -rf $(VENV) out var build *.egg-info

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "pansketch needs Python 3.11 or later; try make PYTHON=python3.11" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "no venv module: install it (Debian: apt install python3-venv)" >&2; exit 2; }

$(VENV)/.%: pyproject.toml | $(BIN)/python
	@echo "installing pansketch[$*] into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@
