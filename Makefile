# Everything happens in .venv of this checkout; nothing global is touched, and every target is safe to repeat.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint requirements.lock

.PHONY: help demo test test-all lint format options bench bench-scores bench-family clean lock

help:
	@echo "make demo      raw text to a BERT that has learned from it, offline, in some three minutes"
	@echo "make test      the test suite, on WORKERS=2 cores; make test-all adds the slow tests"
	@echo "make lint      ruff and mypy (strict); make format applies ruff's fixes"
	@echo "make bench     the benchmarks, side by side with other libraries (DATA=folder)"
	@echo "make bench-scores   fine-tuning beside transformers: speed, and the scores of each task (MODEL=, CHINESE_MODEL=folder)"
	@echo "make bench-family   the families and BERT's ablation on the same text and tasks (DATA=folder), some three hours on one core"
	@echo "make clean     remove .venv and what the demo made"

demo: $(VENV)/.runtime
	$(BIN)/bertkit demo

# Tests of one file stay together: many share a fixture that takes long to make.
WORKERS ?= 2
PYTEST  := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile

test: $(VENV)/.dev
	$(PYTEST)

test-all: $(VENV)/.dev
	$(PYTEST) -m "slow or not slow"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The page of all options, from the schemas in the code; a test compares them.
options: $(VENV)/.runtime
	$(BIN)/python -m bertkit.cli.page > docs/options.md

DATA ?= data
bench: $(VENV)/.bench
	$(BIN)/python benchmarks/embed.py --data $(DATA)
	$(BIN)/python benchmarks/prepare.py --data $(DATA)
	$(BIN)/python benchmarks/runtimes.py --data $(DATA)
	$(BIN)/python benchmarks/serve.py --data $(DATA)
	$(BIN)/python benchmarks/serve.py --data $(DATA) --flood
	$(BIN)/python benchmarks/generate.py
	$(BIN)/python benchmarks/words.py --data $(DATA) --out words.jsonl
	$(BIN)/python benchmarks/pretrain.py --data $(DATA)
	$(BIN)/python benchmarks/time_to_loss.py --data $(DATA) --out time_to_loss.json --picture time_to_loss.png

# Takes an afternoon; stopped, it goes on with what is left.
MODEL ?= model
bench-scores: $(VENV)/.bench
	$(BIN)/python benchmarks/finetune.py --data $(DATA) --model $(MODEL)
	$(BIN)/python benchmarks/scores.py --data $(DATA) --model $(MODEL) $(if $(CHINESE_MODEL),--chinese-model $(CHINESE_MODEL)) \
	  --out benchmarks/scores.jsonl
	$(BIN)/python benchmarks/scores.py --out benchmarks/scores.jsonl --table

# Stopped, it goes on with what is left.
bench-family: $(VENV)/.runtime
	PATH="$(CURDIR)/$(BIN):$$PATH" benchmarks/family.sh $(DATA)

# A stamp is written only after its install has succeeded, so an interrupted set-up is simply done again.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "bertkit needs Python 3.11 or newer; this is $$($(PYTHON) --version). Name another: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.created pyproject.toml requirements.lock
	@echo "Installing bertkit into $(VENV) (once; a few minutes on a slow line)"
	$(PIP) --editable '.[generate,serve,words]'
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@echo "Installing the development tools into $(VENV)"
	$(PIP) --editable '.[dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.runtime
	$(PIP) --editable '.[bench]'
	@touch $@

# The versions every set-up above is held to. Run after changing dependencies, and read the diff.
lock: $(VENV)/.dev $(VENV)/.bench
	@{ sed -n '/^#/p' requirements.lock; \
	   $(BIN)/python -m pip freeze --exclude-editable --exclude bertkit | sed 's/^\(torch==[0-9.]*\)+.*/\1/'; } > requirements.new
	@mv requirements.new requirements.lock

clean:
	rm -rf $(VENV) demo
