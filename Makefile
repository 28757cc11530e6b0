# Every target sets up what it needs; nothing has to be done by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TESTS := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

.PHONY: install demo test test-fast lint docs audit mutants clean

install: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[all,dev]"
	touch $(READY)

demo: install
	rm -rf demo
	$(BIN)/understudy demo -o demo

test: lint
	$(TESTS)

test-fast: install
	$(TESTS) -m "not slow"

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: install
	$(TESTS) tests/docs
	$(BIN)/mkdocs build --strict --quiet
	@echo "read site/index.html"

audit: install
	UNDERSTUDY_AUDIT=1 $(TESTS) -m audit

mutants: install
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.mutants --slowest

clean:
	rm -rf $(VENV) demo build dist *.egg-info
