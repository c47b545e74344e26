# Two commands on a fresh machine (Python 3.11+ and make): `make quickstart` and `make test`.
# Each builds .venv by itself, from the versions that requirements.lock pins.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: quickstart reproduce test test-slow lint format notebooks docs links lock clean

# Training on CPUs is faster with huge pages.
quickstart reproduce: export GLIBC_TUNABLES ?= glibc.malloc.hugetlb=1

# About three minutes of CPU time.
quickstart: .venv/installed
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
reproduce: .venv/installed
	$(if $(CONFIG),,$(error CONFIG is missing, such as: make reproduce CONFIG=multi30k_en_de))
	$(BIN)/python -m benchmarks.reproduce $(CONFIG) --seeds $(SEEDS) $(ARGS)

test: .venv/installed-dev lint
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

test-slow: .venv/installed-dev .venv/installed-docs
	$(BIN)/python -m pytest -q -n 2 --dist load -m slow

lint: .venv/installed-dev
	$(BIN)/ruff check -q .
	$(BIN)/ruff format -q --check .

format: .venv/installed-dev
	$(BIN)/ruff check -q --fix .
	$(BIN)/ruff format -q .

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "flax_transformer needs Python 3.11 or later")'
	$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

.venv/installed: .venv/bin/python pyproject.toml requirements.lock
	$(BIN)/python -m pip install -q -c requirements.lock -e .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install -q -c requirements.lock -e '.[dev]'
	touch $@

# Writes the badges and install cells of the notebooks, and the badge of the README; runs the notebooks that are stored with
# their outputs, and stores them again.
notebooks: .venv/installed-dev format
	$(BIN)/python notebooks/parts.py
	$(BIN)/python notebooks/run.py

# The site, in build/site: from the documents, the notebooks as they are stored, and the docstrings.
docs: .venv/installed-docs
	$(BIN)/sphinx-build -q -E -W --keep-going -c docs/site -d build/doctrees . build/site
	@echo 'Open build/site/index.html'

# Asks for every address that the site links to; needs a network.
links: .venv/installed-docs
	$(BIN)/sphinx-build -q -E -b linkcheck -c docs/site -d build/doctrees . build/links

.venv/installed-docs: .venv/installed
	$(BIN)/python -m pip install -q -c requirements.lock -e '.[docs]'
	touch $@

# Pins what is installed now; run after upgrading and testing.
lock: .venv/installed-dev .venv/installed-docs
	$(BIN)/python -m pip freeze --exclude-editable | grep -v '@ ' > requirements.lock

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache
