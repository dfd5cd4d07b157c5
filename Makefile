# Works with nothing but Python >= 3.11, git and make. `make help` lists the targets.
# PYTHON=/path/to/python make setup   chooses the interpreter.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CANDIDATES := $(if $(PYTHON),"$(PYTHON)",python3 python3.13 python3.12 python3.11 python)
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -qq
export PYTHONNOUSERSITE := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format bench lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv from requirements.lock

$(STAMP): requirements.lock pyproject.toml
	@found=; for python in $(CANDIDATES); do \
	  if "$$python" -c 'import sys; assert sys.version_info >= (3, 11); import ensurepip, sqlite3, ssl, venv' \
	    >/dev/null 2>&1; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "setup: no usable Python >= 3.11 among:" $(CANDIDATES) >&2; \
	  echo "setup: it needs the modules ensurepip, sqlite3, ssl and venv (on Debian: python3-venv)." >&2; \
	  echo "setup: install one, or name it: make setup PYTHON=/path/to/python3.11" >&2; exit 1; \
	fi; \
	if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  echo "setup: creating $(VENV) with $$("$$found" --version)"; "$$found" -m venv --clear $(VENV); \
	fi
	@echo "setup: installing $$(grep -c '^[a-z].*==' requirements.lock) locked packages (about 500 MB, half a minute or more)"
	@$(PIP) install --require-hashes -r requirements.lock
	@echo "setup: installing loremesh itself, editable"
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $(STAMP)
	@echo "setup: done; try $(BIN)/loremesh --help"

demo: $(STAMP) ## four nodes over a real bus, one of them hostile, and a page of what happened
	@$(BIN)/loremesh demo

test: $(STAMP) ## run the tests; ARGS="-k name" narrows them
	@$(BIN)/python -m pytest -q -ra --durations=15 $(ARGS)

check: $(STAMP) ## lint, format, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(STAMP) ## put the code into the form that `make check` asks for
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## run the benchmarks; ARGS="name" chooses
	@$(BIN)/python -m tests.bench.run $(ARGS)

lock: $(STAMP) ## refresh requirements.lock; ARGS="--upgrade" takes the newest of everything
	@tool=$$(mktemp -d) && trap 'rm -rf "$$tool"' EXIT && \
	$(BIN)/python -m venv "$$tool" && "$$tool/bin/python" -m pip --disable-pip-version-check -q install uv && \
	"$$tool/bin/uv" pip compile -q --universal --python-version 3.11 --generate-hashes --extra dev \
	  --no-header --no-annotate $(ARGS) -o requirements.lock pyproject.toml

clean: ## remove .venv and every cache
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find crypto sync node tests -name __pycache__ -type d -prune -exec rm -rf {} +
