# Everything runs in .venv, which each target builds when it is missing or stale. Needs Python 3.11 or newer, and make.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint deploy/constraints.txt

# Read by the demo's recipe from its environment, so that no character of them means anything to a shell.
export DIR ?= .
export ASK ?=
LOADS ?=

.PHONY: demo test soak bench bench-check bench-keep check protos protos-released constraints clean

## Starts the daemon and three providers, asks a question about a folder: make demo DIR=… ASK="…"
demo: .venv/.server
	@$(BIN)/context-broker demo "$$DIR" --ask "$$ASK"

## Runs the tests, a file at a time on each core.
test: .venv/.dev tests/foreign/node_modules/.stamp
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

## Runs what takes long, half an hour or so, and shows what it measured; CONTEXT_BROKER_SOAK_SCALE=0.1 is a try.
soak: .venv/.dev tests/foreign/node_modules/.stamp
	@rm -f .soak.jsonl
	$(BIN)/python -m pytest -m soak; code=$$?; cat .soak.jsonl; exit $$code

## Measures the broker against a bare relay, a JSON line a load: make bench LOADS="typical small". A minute each.
bench: .venv/.dev
	@$(BIN)/python -m tests.bench $(LOADS)

## The same, and fails where a ratio is a tenth worse than that of the last release.
bench-check: .venv/.dev
	@$(BIN)/python -m tests.bench --check $(LOADS)

## The same, and keeps the lines in tests/bench/history.jsonl. For releases, on a machine that does nothing else.
bench-keep: .venv/.dev
	@$(BIN)/python -m tests.bench --keep $(LOADS)

## Lints, formats, types, and the contract's own lint; and that it breaks no one who speaks the last released one.
check: .venv/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	cd protos && ../$(BIN)/buf lint && ../$(BIN)/buf format --diff --exit-code --exclude-path buf
	cd protos && ../$(BIN)/buf breaking --against released.binpb --exclude-path buf

## Writes the Python modules of the contract again.
protos: .venv/.dev
	$(BIN)/python protos/generate.py

## Takes the contract as it is now as the one that later ones are held against. For releases.
protos-released: .venv/.dev
	cd protos && ../$(BIN)/buf build --exclude-source-info --exclude-path buf --output released.binpb

## Pins the versions that are installed now.
constraints: .venv/.dev
	$(BIN)/python -m pip freeze --exclude-editable | sort --ignore-case > deploy/constraints.txt

clean:
	rm -rf .venv dist tests/foreign/node_modules

.venv/.python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "context-broker needs Python 3.11 or newer; name one with PYTHON=…")'
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.server: .venv/.python pyproject.toml deploy/constraints.txt
	$(PIP) --editable '.[server,symbols]'
	@touch $@

.venv/.dev: .venv/.server
	$(PIP) --editable '.[server,symbols,dev]'
	@touch $@

# The foreign client of the contract tests; they skip, and say why, where there is no npm or no registry.
tests/foreign/node_modules/.stamp: tests/foreign/package.json tests/foreign/package-lock.json
	@mkdir -p tests/foreign/node_modules
	@if command -v npm >/dev/null; then cd tests/foreign && npm ci --silent --no-audit --no-fund || true; fi
	@mkdir -p tests/foreign/node_modules && touch $@
