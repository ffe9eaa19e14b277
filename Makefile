# Two commands do everything on a fresh machine with Python 3.10+ and make: `make demo`, `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint unit bench clean

demo: $(READY)
	$(BIN)/python train.py \
	  --model_conf configurations/models/VAE_digits.yml \
	  --data_conf configurations/data/Digits_valid.yml \
	  --eval_conf configurations/eval/VAE_simple.yml \
	  --arch_impl modules/architectures/simple_digits.py \
	  --epochs 30 --seed 0 --wandb disabled

test: lint unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal --cov --cov-report=term

bench: $(READY)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks

# The torch of constraints.txt is installed first: a range would take the newest one.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) build *.egg-info
