# `make run` shows the main job, `make test` runs every check; each makes the project's own environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Modules are compiled once, when they are first imported, also where the caller's environment says not to keep them: tests start
# hundreds of processes, and each would compile all of PyTorch again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test style types tests test-wide test-random fuzz coverage bench pages clean

run: $(STAMP)
	$(BIN)/ridgeline run

# Types are checked beside the tests: mypy takes one core, and the tests often wait.
test: style
	+$(MAKE) --no-print-directory -j 2 types tests

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# A look through all tests compiles their modules once, while mypy has the other core; each of the processes would do it again.
tests: $(STAMP)
	$(BIN)/python -m pytest --collect-only >/dev/null || true
	$(BIN)/python -m pytest -n 3 --dist worksteal

# The same tests with all machines, charts, lessons and mixtures of options where `make test` takes a sample: an hour of two cores.
test-wide: $(STAMP)
	RIDGELINE_TEST_WIDE=1 $(BIN)/python -m pytest -n 3 --dist worksteal

# The property tests with new random examples; a failure prints what reproduces it.
test-random: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m hypothesis --hypothesis-profile=random

# Every parser under generated bad input, SECONDS each, two at a time; TARGETS="ncu words" chooses some.
SECONDS ?= 600
TARGETS ?=
fuzz: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(SECONDS) --targets "$(TARGETS)"
	PYTHONPATH=tests $(BIN)/python -m fuzz.with_atheris --seconds $(SECONDS) --targets "$(TARGETS)"

# The tests with the lines and branches they reach; takes a quarter longer.
coverage: $(STAMP)
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term

bench: $(STAMP)
	$(BIN)/python benchmarks/predict_speed.py
	$(BIN)/python benchmarks/cpu_against_likwid.py

# Everything in the docs that is made by a program.
pages: $(STAMP)
	$(BIN)/python docs/make_pictures.py
	$(BIN)/python docs/make_glossary.py
	$(BIN)/python docs/make_models.py
	$(BIN)/python docs/make_consoles.py

# The stamp is newer than what it was made from: a changed dependency installs again, an unchanged one costs nothing.
# Compiling every module of every package takes a minute; what is imported is compiled then.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade -c constraints.txt pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e ".[test]"
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
