# The two commands: `make run` sets up and runs the main job, `make test` passes the tests. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
# Which cluster to use instead of the local one: a kubeconfig file.
CLUSTER ?=
# Options of the benchmark.
BENCH ?=
# What must be covered to 95 % and more, in branches.
CORE := workqueue/queue.py cache/store.py election.py runtime/status.py scheduler/cycle.py scheduler/snapshot.py scheduler/queue.py

.DEFAULT_GOAL := help
.PHONY: help install run test test-unit test-sim test-parity test-postgres test-e2e coverage soak lint format crds crds-check bench \
	control-plane kind-e2e lock clean

help: ## list what there is
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(INSTALLED) ## make the virtual environment, from the locked and hashed requirements

$(INSTALLED): requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Konverge needs Python 3.11 or newer; say which: make PYTHON=python3.12 ...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the requirements into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

run: $(INSTALLED) ## a local Kubernetes, the operator and the samples, until all are Ready
	@$(BIN)/konverge demo $(if $(CLUSTER),--kubeconfig $(CLUSTER))

control-plane: $(INSTALLED) ## build the local control plane into the user's cache, if it is not there
	@$(BIN)/python -m konverge.testing.build

test: coverage test-parity test-postgres test-e2e ## all tests: unit and sim with their coverage, parity, postgres, e2e

test-unit: $(INSTALLED) ## pure code: no network but loopback, no waiting
	$(PYTEST) tests/unit

test-sim: $(INSTALLED) ## the whole runtime in simulated time, with faults
	$(PYTEST) tests/sim

test-parity: $(INSTALLED) control-plane ## schemas and decisions against the real API server
	$(PYTEST) tests/parity

test-postgres: $(INSTALLED) ## the scripts of Database's pods on real PostgreSQL servers, where there is a PostgreSQL
	$(PYTEST) tests/postgres

test-e2e: $(INSTALLED) control-plane ## the operator on the local cluster
	$(PYTEST) tests/e2e || { echo "--- once more, only what failed: the machine may have been busy, a fault fails twice"; $(PYTEST) tests/e2e --last-failed; }

bench: $(INSTALLED) control-plane ## Konverge, controller-runtime and kopf side by side; BENCH='--count 500 --rounds 1'
	$(BIN)/python bench/converge.py $(BENCH)
	$(BIN)/python bench/inprocess.py

soak: $(INSTALLED) control-plane ## ten minutes of edits and deletes: memory and tasks flat, caches true
	KONVERGE_SOAK_SECONDS=600 $(PYTEST) tests/e2e/test_soak.py

coverage: $(INSTALLED) ## unit and sim tests with branch coverage; the core must have 95 %
	$(PYTEST) tests/unit tests/sim --cov --cov-report=
	$(BIN)/coverage report
	@for module in $(CORE); do \
		$(BIN)/coverage report --fail-under=95 --include="*/konverge/$$module" >/dev/null \
			|| { echo "$$module is covered to less than 95 %"; exit 1; }; done

lint: $(INSTALLED) ## ruff, mypy, the layers, the generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory crds-check

format: $(INSTALLED) ## format and fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

crds: $(INSTALLED) ## write crds/, the RBAC rules and the webhooks from the models and the reconcilers
	$(BIN)/konverge crds
	$(BIN)/konverge rbac --operator-namespace konverge-system --output config/rbac/role.yaml
	$(BIN)/konverge rbac --users --output config/rbac/user_roles.yaml
	$(BIN)/konverge webhooks --output config/webhook/manifests.yaml

crds-check: $(INSTALLED)
	$(BIN)/konverge crds --check
	$(BIN)/konverge rbac --operator-namespace konverge-system --output config/rbac/role.yaml --check
	$(BIN)/konverge rbac --users --output config/rbac/user_roles.yaml --check
	$(BIN)/konverge webhooks --output config/webhook/manifests.yaml --check

kind-e2e: $(INSTALLED) ## the same e2e suite on kind; needs Docker and kind
	@command -v kind >/dev/null || { echo "kind is not installed; the same suite runs without it: make test-e2e"; exit 1; }
	kind create cluster --name konverge --config kind.yaml --kubeconfig .kind-kubeconfig --wait 120s
	KONVERGE_TEST_KUBECONFIG=.kind-kubeconfig $(PYTEST) tests/e2e; status=$$?; \
	kind delete cluster --name konverge; rm -f .kind-kubeconfig; exit $$status

lock: $(INSTALLED) ## resolve the requirements anew, with hashes
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --quiet -o requirements/runtime.lock
	$(BIN)/uv pip compile pyproject.toml --extra otel --extra testing --group dev --universal --python-version 3.11 --generate-hashes --no-header --quiet -o requirements/dev.lock

clean: ## remove what was made in this folder (the control plane stays in the user's cache)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
