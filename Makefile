# Two commands from a bare Debian or Ubuntu: `make report` and `make test`. Everything else is for those who work on assay.
# Only the report and help go to stdout, so `make report > report.txt` holds the report and nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Where NVIDIA's packages put nvcc, for `make cuda`.
export PATH := $(PATH):/usr/local/cuda/bin

JOBS ?= $(shell nproc)
# More options for CMake, as in: make test CMAKE_ARGS=-DASSAY_BATCHES=OFF
CMAKE_ARGS ?=
# What properties draw: another commit tries other cases, the same one the same. make test ASSAY_SEED=4d0a015 tries those again.
export ASSAY_SEED ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo 0)
# More options for ctest, as in: make test CTEST_ARGS='-R parallax'
CTEST_ARGS ?=

build-preset = { cmake --preset $(1) $(CMAKE_ARGS) && cmake --build --preset $(1) --parallel $(JOBS) $(2); } >&2
test-preset = ctest --preset $(1) --parallel $(JOBS) $(CTEST_ARGS)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' Makefile

.PHONY: report
report: build ## install what is missing, build, print the error report
	@build/assay report || [ $$? -eq 1 ]  # 1: not every row is PASS, as the page says

.PHONY: build
build: setup ## install what is missing, build the CLI as build/assay
	@$(call build-preset,host,--target assay)

.PHONY: lab
lab: setup ## build what its developers call as build/assay-lab: mutants, calibrate, identities, papers, bench, docs
	@$(call build-preset,host,--target assay-lab)

.PHONY: test
test: setup-test ## install what is missing, build everything, run all tests
	@$(call build-preset,host)
	@echo "make: cases of properties by ASSAY_SEED=$(ASSAY_SEED)" >&2
	@$(call test-preset,host)

.PHONY: quick
quick: setup-test ## build everything, run what failed last and the cheapest tests, for 45 seconds
	@$(call build-preset,host)
	@tools/dev/quick.py --jobs $(JOBS)

.PHONY: asan
asan: setup ## build with AddressSanitizer and UndefinedBehaviorSanitizer in build-asan, run all tests
	@$(call build-preset,asan)
	@$(call test-preset,asan)

.PHONY: clang
clang: setup-test ## build with clang++ in build-clang, run all tests
	@$(call build-preset,clang)
	@$(call test-preset,clang)

.PHONY: cuda
cuda: setup ## build in build-cuda with what is tested by nvcc (conversions, a plugin), run all tests
	@$(call build-preset,cuda)
	@$(call test-preset,cuda)

.PHONY: lint
lint: setup-test ## check the format and run clang-tidy over the tree
	@cmake --preset clang -B build-lint -DASSAY_BATCHES=ON $(CMAKE_ARGS) >&2
	@tools/dev/lint --build build-lint --jobs $(JOBS)

.PHONY: lint-newest
lint-newest: setup-test ## the same for the 16 units changed last
	@cmake --preset clang $(CMAKE_ARGS) >&2
	@tools/dev/lint --build build-clang --jobs $(JOBS) --newest 16

.PHONY: format
format: setup-test ## format every C++ file in place
	@tools/dev/lint --fix-format

.PHONY: docs
docs: lab ## write the generated pages again
	@build/assay-lab docs

.PHONY: site
site: ## write the documentation as a site, build/site/html
	@tools/setup --site
	@python3 tools/site/build.py --out build/site
	@NO_MKDOCS_2_WARNING=1 build/site-python/bin/mkdocs build --strict --quiet --config-file build/site/mkdocs.yml

# The command that made a page, from its first line.
command-of = $(shell sed -n '1s/.*`\(.*\)`.*/\1/p' $(1))

.PHONY: detection
detection: lab ## measure records/detection.md again, in about a quarter of an hour
	@$(call command-of,records/detection.md)

.PHONY: calibration
calibration: lab ## measure records/calibration.md again: its 4 seeds are 1.6 core hours
	@$(call command-of,records/calibration.md)

.PHONY: fixtures
fixtures: build ## write the golden files again
	@build/assay fixtures generate

# Another Python than this machine's, as in: make wheel PYTHON=python3.12, whose wheel serves all later ones; make test tests it, too
PYTHON ?=

.PHONY: wheel
wheel: setup python ## make assay's Python package for this machine's Python, in build/wheels
	@$(call build-preset,host,--target assay)
	@build/$(notdir $(or $(PYTHON),python))/bin/python tools/dev/make_wheel.py --build build --out build/wheels

# More options for the runs, as in: make foreign FOREIGN_ARGS='--runs 1000 --seed 1'
FOREIGN_ARGS ?=

.PHONY: foreign
foreign: wheel ## run kernels that others have published on random problems and judge them
	@tools/setup --foreign
	@build/foreign/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps --no-index --find-links build/wheels assay
	@build/foreign/bin/python -m unittest discover --start-directory python/tests/torch
	@ASSAY=$(CURDIR)/build/assay build/foreign/bin/python -m unittest discover --start-directory python/tests --pattern test_on_torch.py
	@TRITON_INTERPRET=1 build/foreign/bin/python tools/gpu/python_check.py --device cpu
	@build/foreign/bin/python tools/dev/walk_pages.py --tool build/assay docs/python.md docs/guides/triton.md python/tests/transcripts/torch.md
	@build/foreign/bin/python proptests/foreign/run.py $(FOREIGN_ARGS)

# How long the laws of a nightly run may take together, and which parts run: tools/dev/nightly.py names them.
SECONDS ?= 3600
PARTS ?=

.PHONY: nightly
nightly: setup-test ## what is too long for every change: laws for an hour (SECONDS=600 for less), fuzzing, planted faults, clang, sanitizers, lint, other systems (PARTS="laws fuzz" for some)
	@$(call build-preset,host)
	@tools/dev/nightly.py --jobs $(JOBS) --seconds $(SECONDS) $(PARTS)

.PHONY: cost
cost: setup-test ## measure what a cold build and all tests cost, in processor seconds: records/cost.md
	@tools/dev/cost.py build
	@$(call build-preset,host)
	@tools/dev/cost.py test && tools/dev/cost.py page

.PHONY: published
published: build ## write records/published-kernels.md again
	@$(call command-of,records/published-kernels.md)

.PHONY: clean
clean: ## remove every build folder
	@rm -rf build build-*

.PHONY: setup
setup: ## install what building needs
	@tools/setup

.PHONY: setup-test
setup-test: ## install what the tests and lint need
	@tools/setup --test
	@tools/setup --python || echo 'make: without these packages the test that reads golden files in Python is left out' >&2

.PHONY: python
python: ## install what the Python tests need, in build/python
	@tools/setup --python $(PYTHON)
