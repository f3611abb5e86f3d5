# `make lab` and `make test` are the two that matter; plain `make` lists them all.
# Written for GNU make 3.81, the one that macOS ships.

# The Python to build .venv with, as in: make lab PYTHON=python3.12
PYTHON ?= python3
# Where torch's small CPU build comes from. Set it empty (TORCH_INDEX=) to take torch from pip's
# default index; that also happens when this address is out of reach.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# Colab's torch. Where only another build can be had: COLAB_TORCH="-r requirements/torch.txt".
COLAB_TORCH ?= $(shell grep '^torch==' requirements/colab.txt)
# More options for JupyterLab (LAB_ARGS=--no-browser), the notebooks to refresh
# (FILES=notebooks/00_start_here.ipynb), and options for the resolver (LOCK_ARGS=--upgrade).
LAB_ARGS ?=
FILES ?=
LOCK_ARGS ?=
# How many learners a hub is measured with, and where the course lives: owner/name, v1.0.
LEARNERS := 3
# How many processes share out the tests.
WORKERS := 2
# The notebook to show as slides, and the folder for assignments.
NOTEBOOK := 00
FOLDER := assignment
REPO :=
TAG :=

# The Pythons for which torch's exact version has a build.
PYTHONS := 3.11 3.12 3.13 3.14
VERSION := import sys; print("%d.%d" % sys.version_info[:2])

# What is collected stands in pyproject.toml. A worker takes a whole file, a notebook's cells above
# all, or what the tests have marked as a group.
TESTS := -m pytest -n $(WORKERS) --dist=loadfile
GROUPS := -m pytest -n $(WORKERS) --dist=loadgroup
LESSONS := notebooks docs
# Each computes with one thread, so that nothing depends on the number of cores. Where there are more
# of them, those that wait sleep: awake they would keep the other worker from its core.
ONE := OMP_NUM_THREADS=1
MORE := OMP_WAIT_POLICY=passive
# Which tests `make test` runs, by their marks in pyproject.toml.
MARKS := not complete

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help lab test test-all test-portable test-references test-browser test-launch \
	test-teaching test-colab test-oldest test-newest check lecture handout assignment refresh \
	look bench train hub links lock clean FORCE
.DEFAULT_GOAL := help

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile

lab: .venv/.installed  ## open the course in JupyterLab
	.venv/bin/python -m jupyterlab --ip=127.0.0.1 \
		--LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb $(LAB_ARGS)

test: .venv/.installed  ## test the code, and every cell of every notebook
	$(ONE) .venv/bin/python $(TESTS) -m "$(MARKS)"

test-all: MARKS :=  # the first of them leaves nothing out
test-all: test test-portable test-references test-browser test-launch test-teaching test-colab  ## run all tests, before a change lands; needs Chromium

test-portable: .venv/.installed  ## test the notebooks as on other processors: plain kernels, more threads
	$(MORE) ATEN_CPU_CAPABILITY=default .venv/bin/python $(TESTS) $(LESSONS)
	$(MORE) OMP_NUM_THREADS=2 .venv/bin/python $(TESTS) $(LESSONS)

test-references: .venv/.references  ## test against transformers, which this installs
	$(ONE) .venv/bin/python $(TESTS) tests/references

test-browser: .venv/.browser  ## test the notebooks in JupyterLab, in a Chromium (CHROMIUM=its path)
	.venv/bin/python tools/chromium.py
	$(ONE) .venv/bin/python $(GROUPS) tests/browser

test-launch: .venv/.launch .venv/.browser  ## test lone notebooks, Binder's build, and a class on a JupyterHub
	$(ONE) .venv/bin/python $(GROUPS) tests/launch
	$(ONE) .venv/bin/python tests/launch/hub.py

test-teaching: .venv/.teach .venv/.grading .venv/.browser  ## test slides, hand-outs and assignments
	$(ONE) .venv/bin/python $(GROUPS) tests/teaching

test-colab: .venv-colab/.installed  ## run the tests with the versions of Colab, whose widgets are older
	$(ONE) .venv-colab/bin/python $(TESTS) -m "not complete" --ignore=tests/test_claims_can_fail.py
	$(ONE) .venv-colab/bin/python $(GROUPS) tests/launch/test_lone.py
	$(call if_chromium,.venv-colab,$(ONE) .venv-colab/bin/python $(GROUPS) tests/browser)

test-oldest: .venv-oldest/.installed  ## run `make test` with the oldest versions allowed
	$(ONE) .venv-oldest/bin/python $(TESTS) -m "not complete"

test-newest:  ## run all tests with the newest versions allowed
	$(call new_venv,.venv-newest)
	$(call install_torch,.venv-newest,torch)
	@echo "Installing the newest versions that pyproject.toml allows."
	@.venv-newest/bin/python -m pip install -qq -e '.[lab,test,references,browser,launch,teach,grading]'
	$(ONE) .venv-newest/bin/python $(TESTS)
	$(ONE) .venv-newest/bin/python $(TESTS) tests/references
	$(ONE) .venv-newest/bin/python $(GROUPS) tests/launch
	$(ONE) .venv-newest/bin/python tests/launch/hub.py
	$(ONE) .venv-newest/bin/python $(GROUPS) tests/teaching
	$(call if_chromium,.venv-newest,$(ONE) .venv-newest/bin/python $(GROUPS) tests/browser)

check: .venv/.installed  ## lint the code and the notebooks, and check their format
	.venv/bin/python -m ruff check .
	.venv/bin/python -m ruff format --check .

lecture: .venv/.teach  ## show a notebook as slides in JupyterLab (NOTEBOOK=03)
	.venv/bin/python tools/lecture.py $(NOTEBOOK) $(LAB_ARGS)

handout: .venv/.teach .venv/.browser  ## write hand-outs for learners and teachers (FILES= for some)
	.venv/bin/python tools/handout.py $(FILES)

assignment: .venv/.grading  ## write the exercises as homework for nbgrader (FOLDER=assignment)
	.venv/bin/python tools/assignment.py "$(FOLDER)"

refresh: .venv/.installed  ## run the notebooks again and store their outputs (FILES= for some of them)
	.venv/bin/python tools/refresh.py $(FILES)

look: .venv/.browser .venv/.teach  ## photograph notebooks and slides in JupyterLab (FILES= for some)
	.venv/bin/python tools/look.py $(FILES)

bench: .venv/.installed  ## measure times and memory (RUNS=5)
	.venv/bin/python tools/bench.py $(RUNS)

train: .venv/.installed  ## train notebook 10's models again and record them: under an hour on two cores
	.venv/bin/python tools/train.py

hub: .venv/.launch  ## measure a class on a JupyterHub on this machine (LEARNERS=3)
	.venv/bin/python tests/launch/hub.py $(LEARNERS)

links: .venv/.installed  ## write the course's address into its links (REPO=owner/name TAG=v1.0)
	.venv/bin/python tools/links.py $(REPO) $(TAG)

lock: .venv-lock/.installed  ## write the lock files again (LOCK_ARGS=--upgrade for newer versions)
	.venv-lock/bin/python tools/lock.py $(LOCK_ARGS)

clean:  ## remove what make has installed, pictures, hand-outs and all caches
	rm -rf .venv .venv-oldest .venv-newest .venv-colab .venv-lock .pytest_cache .ruff_cache \
		build look handout *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environments. Each ends by writing a stamp, so that a half-finished one has none and is made
# again. .venv is also made again when its folder was moved, when its Python is gone, and when
# PYTHON= asks for another version than it has.
ifneq ($(wildcard .venv/.installed),)
has := $(or $(shell .venv/bin/python -c '$(VERSION)' 2>/dev/null),none)
wanted := $(if $(filter file,$(origin PYTHON)),$(has),$(shell "$(PYTHON)" -c '$(VERSION)' 2>/dev/null))
ifneq ($(CURDIR) $(filter-out none,$(wanted)),$(shell cat .venv/.installed) $(has))
.venv/.installed: FORCE
endif
endif

.venv/.installed: requirements/course.lock requirements/torch.txt
	$(call new_venv,.venv)
	@echo "Installing the exact versions of requirements/course.lock. The first time takes a few minutes."
	@.venv/bin/python -m pip install -qq --require-hashes --no-deps -r requirements/course.lock
	$(call install_torch,.venv,-r requirements/torch.txt)
	@echo "Installing course_utils, and turning off JupyterLab's look-ups of news and updates."
	@.venv/bin/python -m pip install -qq --no-deps --no-build-isolation -e .
	@.venv/bin/jupyter labextension disable --log-level=ERROR \
		"@jupyterlab/apputils-extension:announcements"
	@.venv/bin/python -m pip check
	@echo "$(CURDIR)" > $@

# In the same environment: they leave every version as it is, for all locks agree on what they share.
.venv/.references .venv/.browser .venv/.launch .venv/.teach .venv/.grading: .venv/.%: .venv/.installed requirements/%.lock
	@echo "Installing the exact versions of requirements/$*.lock."
	@.venv/bin/python -m pip install -qq --require-hashes --no-deps -r requirements/$*.lock
	@.venv/bin/python -m pip check
	@touch $@

.venv-oldest/.installed: pyproject.toml tools/bounds.py
	$(call new_venv,.venv-oldest)
	@.venv-oldest/bin/python tools/bounds.py > .venv-oldest/lowest.txt
	$(call install_torch,.venv-oldest,-c .venv-oldest/lowest.txt torch)
	@echo "Installing the oldest versions that pyproject.toml allows."
	@.venv-oldest/bin/python -m pip install -qq -c .venv-oldest/lowest.txt -e '.[lab,test]'
	@touch $@

# With a setuptools that builds the helper of lone notebooks; Colab's pip fetches one when it builds.
.venv-colab/.installed: pyproject.toml requirements/colab.txt
	$(call new_venv,.venv-colab)
	$(call install_torch,.venv-colab,$(COLAB_TORCH))
	@echo "Installing the versions of requirements/colab.txt."
	@grep -v '^torch==' requirements/colab.txt > .venv-colab/rest.txt
	@.venv-colab/bin/python -m pip install -qq -r .venv-colab/rest.txt -e '.[test,browser]' \
		"setuptools>=77"
	@touch $@

.venv-lock/.installed:
	$(call new_venv,.venv-lock)
	@.venv-lock/bin/python -m pip install -qq "uv>=0.8"
	@touch $@

# new_venv,FOLDER: make it afresh, or say in a sentence why $(PYTHON) will not do.
define new_venv
	@version=$$("$(PYTHON)" -c '$(VERSION)' 2>/dev/null) && found="is Python $$version" || found="was not found"; \
	case " $(PYTHONS) " in *" $$version "*) ;; *) \
		echo "This course needs Python 3.11 to 3.14, but $(PYTHON) $$found. Name another one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; \
		exit 1;; \
	esac; \
	echo "Making $(1) with Python $$version."
	@rm -rf $(1)
	@"$(PYTHON)" -m venv $(1)
endef

# if_chromium,FOLDER,COMMAND: do it where there is a Chromium, and say so where there is none.
define if_chromium
	@$(1)/bin/python tools/chromium.py; case $$? in 0) $(2);; 1) ;; *) exit 2;; esac
endef

# install_torch,FOLDER,WHAT: only torch from its own index, without retries, for there it is small;
# else from the default index, with all that this build needs.
define install_torch
	@if test -n "$(TORCH_INDEX)"; then \
		echo "Installing torch from $(TORCH_INDEX)."; \
		$(1)/bin/python -m pip install -qq --no-deps --timeout=10 --retries=0 \
			--index-url "$(TORCH_INDEX)" $(2) 2>$(1)/torch.log && exit; \
		echo "That did not work; $(1)/torch.log says why."; \
	fi; \
	echo "Installing torch from pip's default index; on Linux this can be a build of several gigabytes."; \
	$(1)/bin/python -m pip install -qq $(2)
endef
