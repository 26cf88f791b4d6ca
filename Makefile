# Everything that a contributor or a user of the checkout runs.  `make help` lists it.

VENV := .venv
PYTHON := $(VENV)/bin/python
CHECKERS := build/checkers
SPHINX := build/sphinx
# xunit1: the family that lets tests record what they saw.
JUNIT := -o junit_family=xunit1 --junitxml=
# More than four processes of tests would wait for the one that has those of the kernel (tests/conftest.py).
PARALLEL := -n auto --maxprocesses 4
# A test that hangs is a failure, not the end of CI.
PYTEST := tests/reachable.sh $(PYTHON) -m pytest -q --timeout 300
# Adds a group of pyproject.toml to the environment of the tests.
pip = $(PYTHON) tests/requirements.py $(1) | $(PYTHON) -m pip install -q --disable-pip-version-check -r /dev/stdin
SHELL_FILES := bin/hugealign bin/hugealign-gcc hugealign/libexec/ld packaging/deb.sh packaging/rpm.sh \
	packaging/debian/tests/main-job tests/setup.sh tests/reachable.sh tests/installed.sh tests/coverage.sh .ci/run $(wildcard examples/*/*.sh)

# Packages that only test-kernels needs, 120 MB, and those that build a kernel: `make test` does not install them.
KERNEL_PACKAGES := qemu-system-x86 qemu-system-arm busybox-static xfsprogs btrfs-progs kmod cpio debian-archive-keyring \
	flex bison bc libelf-dev xz-utils mmdebstrap apparmor secilc zstd \
	qemu-system-misc qemu-system-ppc opensbi qemu-slof gcc-powerpc64le-linux-gnu

.PHONY: help count demo test test-lab test-links test-live test-kernels test-postgres test-mysql test-prebuilt test-fresh test-archive check coverage mutants format bench rules docs manual docs-live tables schemas share pad install uninstall man deb rpm wheel setup clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

count: ## how large it is: lines, modules, commands, options
	@$(FIND_PYTHON); exec "$$python" packaging/count.py

demo: ## the main job: build, verify, warm, run; one table
	@$(FIND_PYTHON); exec "$$python" -m examples.demo.demo build/demo

test: setup ## the tests; installs what they need
	$(PYTEST) $(PARALLEL) -m 'not matrix and not kernels' $(ARGS)

test-lab: setup ## the tests of the laboratory
	$(PYTEST) $(PARALLEL) -m 'not matrix' lab/tests $(ARGS)

test-links: setup ## the long link matrix
	tests/setup.sh $(VENV) gcc-powerpc64le-linux-gnu g++-powerpc64le-linux-gnu g++-riscv64-linux-gnu g++-s390x-linux-gnu
	$(call pip,matrix)
	$(PYTHON) -m tests.link.newer
	$(PYTEST) $(PARALLEL) --dist worksteal -m matrix $(or $(ARGS),$(JUNIT)build/matrix.xml)

test-kernels: setup ## kernels of Debian's, in software emulation; writes docs/measured/kernels.md
	tests/setup.sh $(VENV) $(KERNEL_PACKAGES)
	$(PYTEST) -m kernels tests/kernels $(ARGS)
	$(PYTHON) -m tests.kernels --write docs/measured/kernels.md

test-live: setup ## every file system, THP mode, writer and user; as root
	tests/setup.sh $(VENV) mmdebstrap podman crun containerd runc docker.io php-cli luajit default-jdk-headless
	$(PYTEST) -m matrix tests/live $(ARGS)

test-postgres: ## build PostgreSQL with hugealign, run its tests, warm it, look at it
	examples/postgres/run.sh

test-mysql: ## the same with MariaDB: built once, linked four ways; a cold build takes half an hour or more
	examples/mysql/run.py

test-prebuilt: setup ## fix what Debian and others built, run it; writes docs/measured/prebuilt.md (2 GB of downloads)
	tests/setup.sh $(VENV) mmdebstrap buildah
	$(PYTHON) -m tests.prebuilt --write docs/measured/prebuilt.md
	$(PYTEST) -m matrix tests/prebuilt

test-fresh: setup ## type the manual in a fresh Debian 12 and 13; writes docs/measured/typed.md; as root
	tests/setup.sh $(VENV) mmdebstrap
	$(PYTHON) -m tests.fresh $(ARGS)

test-archive: ## build Debian's packages as they are and with hugealign, goes on where it stopped; as root, hours
	tests/setup.sh $(VENV) mmdebstrap
	$(PYTHON) -m tests.archive $(ARGS)

check: $(CHECKERS)/installed ## lint, format, imports, types, spelling, sh and C; needs Python, and a network the first time
	@failed=; \
	spelling() { git ls-files -z | xargs -0 $(CHECKERS)/bin/codespell; }; \
	run() { echo "$$*" | cut -c1-100; "$$@" || failed="$$failed $${1##*/}"; }; \
	run_installed() { if command -v "$$1" >/dev/null; then run "$$@"; \
		else echo "check: not checked: $$1 is not installed"; [ -z "$$CI" ] || failed="$$failed $$1"; fi; }; \
	run $(CHECKERS)/bin/ruff check; \
	run $(CHECKERS)/bin/ruff format --check; \
	PYTHONPATH=lab/src run $(CHECKERS)/bin/lint-imports --no-logo; \
	run $(CHECKERS)/bin/mypy; \
	run $(CHECKERS)/bin/python packaging/english.py; \
	run $(CHECKERS)/bin/python packaging/names.py; \
	run $(CHECKERS)/bin/python packaging/phrases.py; \
	run $(CHECKERS)/bin/python packaging/subjects.py; \
	run spelling; \
	run_installed shellcheck -x -P SCRIPTDIR -P . $(SHELL_FILES); \
	run_installed clang-format-14 --dry-run -Werror $$(git ls-files '*.c' '*.cc' '*.cpp' '*.h'); \
	[ -z "$$failed" ] || { echo "make check: failed:$$failed" >&2; exit 1; }

format: $(CHECKERS)/installed ## format the Python
	$(CHECKERS)/bin/ruff check --fix
	$(CHECKERS)/bin/ruff format

coverage: setup ## lines and branches that tests/unit and tests/commands reach, in child processes too
	$(call pip,coverage)
	tests/coverage.sh $(VENV) $(or $(ARGS),tests/unit tests/commands)

mutants: setup ## change the modules that guard users at 200 random places, and count what the tests do not notice
	$(call pip,mutants)
	$(PYTHON) -m tests.mutants $(ARGS)

bench: setup ## benchmarks: ratios, side by side
	$(PYTHON) -m lab.bench.costs --write docs/measured/cost.md
	$(PYTHON) -m lab.bench.peers --write docs/measured

rules: ## write docs/reference/rules.md
	@$(FIND_PYTHON); exec "$$python" packaging/rules.py

docs: setup rules ## write rules.md and docs/reference/api.md, renew the samples, and write docs/measured/links.md from a run of the link tests
	$(PYTHON) -m tests.api >docs/reference/api.md
	$(PYTHON) -m tests.samples docs/reference/verify.md docs/tutorials/first-steps.md README.md
	$(PYTHON) -m tests.picture docs/before-after.svg
	$(PYTEST) -m 'not matrix' $(JUNIT)build/junit.xml tests/link
	$(PYTHON) -m tests.table docs/measured/links.md build/junit.xml $(wildcard build/matrix.xml)

manual: $(SPHINX)/installed ## the manual as a site, build/manual; a broken link or any other warning is an error
	$(SPHINX)/bin/sphinx-build -q -E -W --keep-going -b html -d build/manual.doctrees -c docs . build/manual
	@echo build/manual/index.html

docs-live: setup ## write docs/measured/huge.md: what this kernel does, by file system; as root
	$(PYTHON) -m tests.live_table docs/measured/huge.md

tables: ## write what hugealign/sh has of Python's tables
	@$(FIND_PYTHON); exec "$$python" packaging/tables.py

schemas: ## write the JSON schemas of the reports
	@$(FIND_PYTHON); exec "$$python" packaging/schemas.py

share: setup ## write the completions in share/, and docs/reference/commands.md
	$(PYTHON) packaging/completions.py
	$(PYTHON) -m tests.samples docs/reference/commands.md

pad: ## write ld-scripts/pad-x86_64.o
	@$(FIND_PYTHON); exec "$$python" -c 'from pathlib import Path; from hugealign.elf import machines, objectfile; \
	  Path("ld-scripts/pad-x86_64.o").write_bytes(objectfile.pad_object(objectfile.Pad(machines.X86_64, ".hugealign.pad")))'

# PREFIX and DESTDIR go through the environment, so no character in them means anything to make or to the shell.
export PREFIX ?= /usr/local
export DESTDIR ?=
FIND_PYTHON = . hugealign/sh/python.sh; find_python hugealign || { echo 'no python3 of version 3.11 or newer found' >&2; exit 1; }

install: man ## install below PREFIX (/usr/local), staged in DESTDIR; no network
	@$(FIND_PYTHON); exec "$$python" -I -S packaging/install.py install $(INSTALL_OPTIONS)

uninstall: ## remove what install put there
	@$(FIND_PYTHON); exec "$$python" -I -S packaging/install.py uninstall

man: ## make the manual pages, share/man
	@$(FIND_PYTHON); exec "$$python" -I -S packaging/man.py

deb: ## build the Debian package, below build/deb
	packaging/deb.sh

rpm: ## build the RPM package, below build/rpm
	packaging/rpm.sh

wheel: ## build the wheel, below dist
	python3 -m venv build/wheel
	build/wheel/bin/python -m pip -q --disable-pip-version-check wheel --no-deps -w dist .
	@echo dist/hugealign-*.whl

setup: $(VENV)/installed ## .venv, and the Debian packages of the tests

# Debian's packages and the Python packages of pyproject.toml's groups; installed again when either list changes.
$(VENV)/installed: pyproject.toml tests/setup.sh tests/requirements.py
	tests/setup.sh $(VENV)
	@touch $@

# Each has an environment of its own: Sphinx pins older versions than the tests use.
$(CHECKERS)/installed $(SPHINX)/installed: pyproject.toml tests/requirements.py
	@$(FIND_PYTHON); exec "$$python" -m venv --clear $(@D)
	$(@D)/bin/python tests/requirements.py $(if $(filter $(SPHINX)/%,$@),manual,check) >$(@D)/requirements.txt
	$(@D)/bin/python -m pip install -q --disable-pip-version-check -r $(@D)/requirements.txt
	@touch $@

clean: ## remove what was built
	rm -rf build dist $(VENV) .pytest_cache .mypy_cache .ruff_cache
