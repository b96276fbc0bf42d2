# The one way in. `make` lists the targets; each does the set-up that it needs.
# Pass more to pytest with ARGS="-k key", or one benchmark with ONLY=key.

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
RACING := $(VENV)/racing
FUZZING := $(VENV)/fuzzing
# Runs a command with JAVA_HOME set to a Java that Spark can use.
WITH_JAVA := home="$$(scripts/find-java)" && JAVA_HOME="$$home"
# Runs a command with CHROMIUM set to a browser that tests of pages can drive.
WITH_CHROMIUM := browser="$$(scripts/find-chromium)" && CHROMIUM="$$browser"
# The same with both.
WITH_BOTH := home="$$(scripts/find-java)" && browser="$$(scripts/find-chromium)" && JAVA_HOME="$$home" CHROMIUM="$$browser"

# File names are UTF-8 wherever this runs; a JVM takes its word for that from the locale.
export LC_ALL := C.UTF-8

# Containers often forbid compiled modules. Without them each process, and each Python worker of Spark, compiles anew
# every module that it imports: half of the time of short commands, and of the tests that start them.
export PYTHONDONTWRITEBYTECODE :=

# Much of a test on Spark is waiting. A file's tests stay together, for they share what is made once.
IN_THREE := --numprocesses=3 --dist=loadfile --no-loadscope-reorder --durations=20
# Other tests seldom wait, and share little: a process that is done takes tests from the other.
IN_TWO := --numprocesses=2 --dist=worksteal

ARGS ?=
ONLY ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-ui quick lint bench prove docs matrix lock

help:
	@echo 'Partita: make <target>'
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 10

setup: $(INSTALLED)  ## make .venv, install the locked packages, find Java
	@home="$$(scripts/find-java)" && echo "Java: $$home"
	@echo "Python: $$($(BIN)/python --version) in $(VENV)"

demo: $(INSTALLED)  ## see what Partita does, in one run
	@$(WITH_JAVA) $(BIN)/partita demo

test: $(INSTALLED)  ## every test but a few long ones, in three processes
	@$(WITH_BOTH) $(BIN)/python -m pytest $(IN_THREE) -m "not long" $(ARGS)

test-ui: $(INSTALLED)  ## the tests of pages alone, in a real browser; screenshots go to build/screenshots
	@$(WITH_CHROMIUM) $(BIN)/python -m pytest tests/web $(ARGS)

quick: $(INSTALLED)  ## the tests that need no JVM and no browser, but a few slow ones, in under a minute
	@$(BIN)/python -m pytest $(IN_TWO) -m "not jvm and not browser and not slow and not long" --hypothesis-profile=quick $(ARGS)

lint: $(INSTALLED)  ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(RACING)  ## side by side with peers, as ratios
	@$(WITH_JAVA) $(BIN)/python -m bench.run $(ONLY)

prove: $(FUZZING)  ## the long tests too, and many more random examples
	@$(WITH_BOTH) $(BIN)/python -m pytest $(IN_THREE) --hypothesis-profile=prove $(ARGS)

docs: $(INSTALLED)  ## build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

matrix: $(INSTALLED)  ## write the table of formats and operations into README.md and docs/index.md
	@$(BIN)/python scripts/capability_matrix.py

lock: $(INSTALLED)  ## pin every package anew in requirements.lock
	@command -v uv >/dev/null || $(BIN)/python -m pip install --quiet uv
	@PATH="$$PATH:$(CURDIR)/$(BIN)" uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --custom-compile-command "make lock" --group dev --group build pyproject.toml \
		--output-file requirements.lock >/dev/null

# What only benchmarks need is no part of the lock; the pip that comes with Python may not know of groups.
$(RACING): $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --group bench
	@touch $@

# What only `make prove` needs is none either.
$(FUZZING): $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --group fuzz
	@touch $@

$(INSTALLED): requirements.lock pyproject.toml
	@scripts/make-venv
