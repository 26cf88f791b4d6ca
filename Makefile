# Everything that a contributor or a user of the checkout runs.  `make help` lists it.

VENV := .venv
PYTHON := $(VENV)/bin/python
SHELL_FILES := bin/hugealign bin/hugealign-gcc hugealign/libexec/ld tests/setup.sh .ci/run $(wildcard examples/*/*.sh)

.PHONY: help demo test test-links test-postgres check format bench docs pad wheel setup clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

demo: ## the main job: build, verify, warm, run; one table
	python3 examples/demo/demo.py build/demo

test: setup ## the tests; installs what they need
	$(PYTHON) -m pytest -q -m 'not matrix' $(ARGS)

test-links: setup ## the long link matrix
	$(PYTHON) -m pytest -q -m matrix $(ARGS)

test-postgres: ## build PostgreSQL with hugealign, run its tests, warm it, look at it
	examples/postgres/run.sh

check: setup ## lint, format, types, shell
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	shellcheck -x -P SCRIPTDIR -P . $(SHELL_FILES)
	clang-format-14 --dry-run -Werror $$(git ls-files '*.c' '*.cc' '*.cpp' '*.h')

format: setup ## format the Python
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

bench: setup ## benchmarks: ratios, side by side
	$(PYTHON) -m tests.bench

docs: setup ## write docs/links.md from a run of the link tests
	$(PYTHON) -m pytest -q -m 'not matrix' --junitxml=build/junit.xml tests/link
	$(PYTHON) -m tests.table build/junit.xml docs/links.md

pad: ## write ld-scripts/pad-x86_64.o
	python3 -c 'from hugealign.elf import image, objectfile; import sys; \
	  sys.stdout.buffer.write(objectfile.pad_object(image.EM_X86_64, ".hugealign.pad"))' >ld-scripts/pad-x86_64.o

wheel: setup ## build the wheel
	$(PYTHON) -m build --no-isolation --wheel

setup: $(VENV)/installed

# Debian's packages and the Python packages of pyproject.toml's extras; done again when either list changes.
$(VENV)/installed: pyproject.toml tests/setup.sh
	tests/setup.sh $(VENV)
	@touch $@

clean: ## remove what was built
	rm -rf build dist $(VENV) .pytest_cache .mypy_cache .ruff_cache
