# Two commands for a fresh machine: `make up` and `make test`. Needs Python 3.10 to 3.13 with venv and pip; uses uv
# instead where it is on the PATH. Kept to what GNU Make 3.81 understands, which macOS ships.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
COMPILE := uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url --no-header \
	--no-annotate --no-strip-extras
SUITS := import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))

.PHONY: help up test test-fast check lock clean FORCE

help:
	@echo "make up         install, start the database, load the bundled files, serve the UI; Ctrl-C stops all"
	@echo "make test       the whole suite"
	@echo "make test-fast  the suite without the tests that start processes or many runs; under two minutes"
	@echo "make check      ruff and mypy"
	@echo "make lock       compile the lock files anew (needs uv)"
	@echo "make clean      remove the virtual environment and the caches"

# `exec`: signals reach the program itself, and make waits for it.
up: $(VENV)/.installed
	@exec $(RUN) -m refresh_assets.cli up

test: $(VENV)/.installed-dev
	@exec $(RUN) -m pytest

test-fast: $(VENV)/.installed-dev
	@exec $(RUN) -m pytest -m "not slow"

check: $(VENV)/.installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

lock:
	$(COMPILE) --extra build pyproject.toml -o requirements.lock
	$(COMPILE) --extra build --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock
	$(COMPILE) --extra openlineage -c requirements-dev.lock pyproject.toml -o requirements-openlineage.lock \
		$$(sed -n 's/^\([a-z0-9.-]*\)[=[].*/--no-emit-package \1/p' requirements-dev.lock)

clean:
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache
	find refresh_assets refresh_assets_tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Made anew where its Python is gone or does not suit, or where the folder was moved: its scripts hold absolute paths.
$(VENV)/.made: FORCE
	@if $(RUN) -c '$(SUITS)' 2>/dev/null && { [ ! -f $@ ] || [ "$$(cat $@)" = "$(CURDIR)" ]; }; then \
		[ -f $@ ] || echo "$(CURDIR)" > $@; \
		exit 0; \
	fi; \
	if [ -e $(VENV) ] && [ ! -w $(VENV) ]; then \
		echo "$(VENV) does not run here and belongs to another user; remove it as that user" >&2; \
		exit 1; \
	fi; \
	for python in "$(PYTHON)" python3.13 python3.12 python3.11 python3.10; do \
		"$$python" -c '$(SUITS)' 2>/dev/null || continue; \
		echo "making $(VENV) with $$("$$python" --version)"; \
		rm -rf $(VENV); \
		if command -v uv >/dev/null 2>&1; then \
			uv venv --quiet --seed --python "$$(command -v "$$python")" $(VENV) || exit 1; \
		else \
			"$$python" -m venv $(VENV) || { \
				echo "this Python has no venv: install it (Debian, Ubuntu: apt install python3-venv) or uv" >&2; \
				rm -rf $(VENV); \
				exit 1; \
			}; \
		fi; \
		echo "$(CURDIR)" > $@; \
		exit 0; \
	done; \
	echo "no Python 3.10 to 3.13 found as $(PYTHON), python3.13, python3.12, python3.11 or python3.10;" >&2; \
	echo "install one, or name it: make PYTHON=/path/to/python3 ..." >&2; \
	exit 1

define install
	@echo "installing what $< pins"
	@if command -v uv >/dev/null 2>&1; then \
		uv pip install --python $(RUN) --require-hashes -r $< \
			&& uv pip install --quiet --python $(RUN) --no-deps --no-build-isolation -e .; \
	else \
		$(RUN) -m pip install --disable-pip-version-check --no-input --require-hashes -r $< \
			&& $(RUN) -m pip install --quiet --disable-pip-version-check --no-input --no-deps --no-build-isolation -e .; \
	fi
	@touch $@
endef

$(VENV)/.installed: requirements.lock pyproject.toml $(VENV)/.made
	$(install)

# The extra goes into a folder of its own: Dagster imports it in every process wherever it is installed.
$(VENV)/.installed-dev: requirements-dev.lock requirements-openlineage.lock pyproject.toml $(VENV)/.made
	$(install)
	@if command -v uv >/dev/null 2>&1; then \
		uv pip install --quiet --python $(RUN) --target $(VENV)/openlineage --no-deps --require-hashes \
			-r requirements-openlineage.lock; \
	else \
		$(RUN) -m pip install --quiet --disable-pip-version-check --no-input --upgrade --target $(VENV)/openlineage \
			--no-deps --require-hashes -r requirements-openlineage.lock; \
	fi
