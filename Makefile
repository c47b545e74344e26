# Two commands on a fresh machine (Python 3.11+ and make): `make quickstart` and `make test`.
# Each builds .venv by itself: under Python 3.11 from the versions that requirements.lock pins, under another from the
# newest. `make test PYTHON=python3.13` builds .venv-3.13 if .venv is another Python's.

PYTHON ?= python3
VENV := .venv
ifneq ($(origin PYTHON),file)
  VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  VENV := .venv$(if $(wildcard .venv/bin/python),$(if $(wildcard .venv/bin/python$(VERSION)),,-$(VERSION)))
endif
BIN := $(VENV)/bin
LOCKED := 3.11
PIP = $(BIN)/python -m pip install -q --no-compile $$(test ! -e $(BIN)/python$(LOCKED) || echo -c requirements.lock)

# Compiles on all cores, which pip would on one; files that are templates do not compile.
define install
$(PIP) -e $(1)
$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || :
endef

.PHONY: quickstart reproduce bench test test-slow test-lowest smoke installed lint format notebooks docs links lock clean

# Training on CPUs is faster with huge pages.
quickstart reproduce: export GLIBC_TUNABLES ?= glibc.malloc.hugetlb=1

# About three minutes of CPU time.
quickstart: $(VENV)/installed
	$(BIN)/flax-transformer train number_words --workdir runs/number_words
	$(BIN)/flax-transformer evaluate runs/number_words
	@echo
	@echo 'Try it yourself:'
	@echo "  echo 'four hundred and seventy-one' | $(BIN)/flax-transformer translate runs/number_words"
	@echo 'Then train on your own text:'
	@echo '  $(BIN)/flax-transformer new my_config.py --source train.en --target train.de'
	@echo '  $(BIN)/flax-transformer train my_config.py --workdir runs/my_config'

SEEDS ?= 1 2 3

# Trains seeds, scores them and prints their row of RESULTS.md: make reproduce CONFIG=multi30k_en_de_tok SEEDS='1 2 3'.
reproduce: $(VENV)/installed
	$(if $(CONFIG),,$(error CONFIG is missing, such as: make reproduce CONFIG=multi30k_en_de))
	$(BIN)/python -m benchmarks.reproduce $(CONFIG) --seeds $(SEEDS) $(ARGS)

# What is faster on this machine; PEERS is an interpreter with torch and transformers.
PEERS ?= $(BIN)/python
bench: $(VENV)/installed
	$(BIN)/python benchmarks/bench.py --peers $(PEERS) $(ARGS)

# Python that writes no bytecode compiles the package again in each process.
test test-slow: export PYTHONDONTWRITEBYTECODE =

# Rewriting assertions, so that they tell what they compared, takes as long as many tests: those that failed run again
# with it.
test: $(VENV)/installed-dev lint
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --assert=plain \
		|| { $(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none --maxfail 20; exit 1; }

test-slow: $(VENV)/installed-dev $(VENV)/installed-docs
	$(BIN)/python -m pytest -q -n 2 --dist load -m slow

# With the lowest versions that pyproject.toml allows, in .venv-lowest; uv resolves them. A warning fails a test, and with a
# later pyparsing matplotlib 3.8 warns.
test-lowest:
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python -m pip install -q uv
	.venv-lowest/bin/uv pip install -q -p .venv-lowest/bin/python --resolution lowest-direct -e '.[dev]' pyparsing==3.2.5
	.venv-lowest/bin/python -m pytest -q -n 2 --dist loadfile tests/transformer tests/decoding tests/engine tests/ops \
		tests/test_end_to_end.py

# Trains, resumes, translates, exports, trains in two processes.
smoke: installed
	.ci/smoke $(BIN)

installed: $(VENV)/installed

lint: $(VENV)/installed-dev
	$(BIN)/ruff check -q .
	$(BIN)/ruff format -q --check .

format: $(VENV)/installed-dev
	$(BIN)/ruff check -q --fix .
	$(BIN)/ruff format -q .

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "flax_transformer needs Python 3.11 or later")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/installed: $(BIN)/python pyproject.toml requirements.lock
	$(call install,.)
	touch $@

$(VENV)/installed-dev: $(BIN)/python pyproject.toml requirements.lock
	$(call install,'.[dev]')
	touch $(VENV)/installed $@

# Writes the badges and install cells of the notebooks, and the badge of the README; runs the notebooks that are stored with
# their outputs, and stores them again.
notebooks: $(VENV)/installed-dev format
	$(BIN)/python notebooks/parts.py
	$(BIN)/python notebooks/run.py

# The site, in build/site: from the documents, the notebooks as they are stored, and the docstrings. After
# `npm install onnxruntime-web@1.30.0` also the page that translates in the browser.
docs: $(VENV)/installed-docs
	$(BIN)/sphinx-build -q -E -W --keep-going -c docs/site -d build/doctrees . build/site
	rm -rf build/site/browser
	test ! -d node_modules/onnxruntime-web || ( $(PIP) -e '.[onnx]' && \
		$(BIN)/flax-transformer export everyday build/site/browser --format web )
	@echo 'Open build/site/index.html'

# Asks for every address that the site links to; needs a network.
links: $(VENV)/installed-docs
	$(BIN)/sphinx-build -q -E -b linkcheck -c docs/site -d build/doctrees . build/links

$(VENV)/installed-docs: $(VENV)/installed
	$(call install,'.[docs]')
	touch $@

# Pins what is installed now; run after upgrading and testing, under Python 3.11.
lock: $(VENV)/installed-dev $(VENV)/installed-docs
	$(BIN)/python -m pip freeze --exclude-editable | grep -v '@ ' > requirements.lock

clean:
	rm -rf .venv .venv-* build dist .pytest_cache .ruff_cache
