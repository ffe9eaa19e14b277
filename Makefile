# Two commands do everything on a fresh machine with Python 3.10+ and make: `make demo`, `make test`.
PYTHON ?= python3
VENV ?= .venv
# Many tests wait for processes that they have started: more at a time than there are cores.
WORKERS ?= 6
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint unit browser slurm bench faults clean

demo: $(READY)
	$(BIN)/python train.py \
	  --model_conf configurations/models/VAE_digits.yml \
	  --data_conf configurations/data/Digits_valid.yml \
	  --eval_conf configurations/eval/VAE_simple.yml \
	  --arch_impl modules/architectures/simple_digits.py \
	  --epochs 30 --seed 0 --wandb disabled
	@echo "To go on: source $(BIN)/activate"

test: lint unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --cov --cov-report=term

# For the tests of pages, which are skipped where there is no browser: Debian's Chromium.
browser:
	@command -v chromium > /dev/null && command -v chromedriver > /dev/null || \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver; }

# For the tests of jobs, which are skipped where there is no SLURM: Debian's. Tests start it themselves.
slurm:
	@command -v slurmctld > /dev/null || command -v /usr/sbin/slurmctld > /dev/null || \
	  { apt-get update -qq && RUNLEVEL=1 apt-get install -y -qq --no-install-recommends slurm-wlm; }

bench: $(READY)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks

faults: $(READY)
	$(BIN)/python -m benchmarks.faults

# What pip has to say is shown only if it fails.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "JADE needs Python 3.10 or newer: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "Installing into $(VENV) (once, a minute or two) ..."
	@$(PYTHON) -m venv $(VENV)
	@{ $(BIN)/python -m pip install --upgrade pip && \
	   $(BIN)/python -m pip install -c constraints.txt --config-settings editable_mode=compat \
	     -e '.[dev]'; } > $(VENV)/install.log 2>&1 || \
	  { cat $(VENV)/install.log; exit 1; }
	@touch $(READY)

clean:
	rm -rf $(VENV) build *.egg-info
