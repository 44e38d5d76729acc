# `make` alone prints the menu. Everything runs in .venv, which is built from the hashed requirements on first use.

PYTHON := .venv/bin/python
ARGS ?=
ENGINE ?= docker
# Of all that tests draw. Always the same one, so that a red run is due to the change; `make draws` takes others.
SEED ?= 9
# Tests with brokers that run at a time on two cores: these tests wait for more than half of the time.
WORKERS ?= 4
export WORKERS
export TWINLOG_CACHE ?= $(CURDIR)/.cache
# Images set it, and every process of every test would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test check unit draws clocks bench parity scenarios spark-versions versions conformance faults connect-faults soak drill picture screenshots reference docs \
	build release image lock clean

help: ## print this menu
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.ready ## two clusters, load and twinlog between them, on this machine
	@$(PYTHON) -m demo $(ARGS)

test: .venv/.ready ## check, then every test: unit, property, integration on real brokers
	@scripts/run_tests.sh $(SEED) $(ARGS)

check: .venv/.ready ## lint, format, types, import contracts; container files; what the docs name; pictures, sizes, words
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@scripts/check_types.sh
	@.venv/bin/lint-imports --no-logo
	@if [ "$$(uname)" = Linux ]; then .venv/bin/hadolint Containerfile examples/*/connect/Dockerfile; \
		else echo "container files are not linted: hadolint is there for Linux"; fi
	@.venv/bin/check-jsonschema --builtin-schema vendor.compose-spec examples/*/docker-compose.yaml
	@$(PYTHON) -m scripts.picture --check
	@$(PYTHON) -m scripts.screenshots --check
	@$(PYTHON) -m scripts.check_docs
	@$(PYTHON) -m scripts.check_structure
	@$(PYTHON) -m scripts.check_words

unit: .venv/.ready ## the tests that need no broker
	@$(PYTHON) -m pytest -m "not integration" --randomly-seed=$(SEED) $(or $(ARGS),tests/unit tests/property)

draws: .venv/.ready ## property tests and campaigns in virtual time, with new seeds for ten minutes; ARGS="--minutes 60"
	@$(PYTHON) -m scripts.draws $(ARGS)

clocks: .venv/.ready ## the tests that need no broker with a clock that begins at 0, 5 and 10^9 seconds: 0 is that of a boot
	@for start in 0 5 1000000000; do \
		TWINLOG_MONOTONIC_START=$$start $(PYTHON) -m pytest -m "not integration" -n 2 --dist loadfile --randomly-seed=$(SEED) \
			$(or $(ARGS),tests/unit tests/property) || exit; done

bench: .venv/.ready ## side by side with MirrorMaker 2, Spark and loops on client libraries
	@$(PYTHON) -m bench $(ARGS)

parity: .venv/.ready ## beside MirrorMaker 2 of 3.9, as `make test` is beside 4.3, and more turns with 4.3; fetches 32 MB once
	@TWINLOG_MM2_VERSION=3.9.1 TWINLOG_EXACTLY_ONCE=disabled $(PYTHON) -m pytest tests/integration/worker/test_parity.py \
		tests/integration/worker/test_take_over.py tests/integration/connect/test_connect_handover.py $(ARGS)
	@TWINLOG_EXACTLY_ONCE=disabled $(PYTHON) -m pytest tests/integration/connect/test_connect_handover.py $(ARGS)
	@$(PYTHON) -m pytest -m parity tests/integration $(ARGS)

scenarios: .venv/.ready ## the guides of docs/guides, followed line by line, and other stories that take minutes
	@$(PYTHON) -m pytest -m scenario tests $(ARGS)

# Files whose tests depend on PySpark: on its private names, its data sources, the classes of its JVM.
SPARK_TESTS := tests/unit/spark tests/integration/worker/test_engine.py tests/integration/ops/test_verify.py \
	$(patsubst %,tests/integration/spark/test_%.py,given_session dataframes dataframes_write sql sql_evaluation submitted)

spark-versions: .venv/.ready ## what depends on PySpark, with the other one that the package allows; fetches 460 MB once
	@place=$$($(PYTHON) -m harness.spark.other_release) && unset SPARK_HOME && export PYTHONPATH="$$place" PYSPARK_PYTHON="$(CURDIR)/$(PYTHON)" && \
		$(PYTHON) -m harness.prepare && $(PYTHON) -m pytest -m "not parity and not scenario and not versions" $(or $(ARGS),$(SPARK_TESTS))

versions: .venv/.ready ## a mirror from and to each of seven releases of Kafka, killed in the middle; six minutes, fetches 250 MB once
	@$(PYTHON) -m scripts.versions $(ARGS)

conformance: .venv/.ready ## Connect's REST API as Kafka's workers answer it; ARGS="--suite corpus": files as MirrorMaker 2 runs them
	@$(PYTHON) -m conformance $(ARGS)

faults: .venv/.ready ## kill, stop and move everything, 100 times, and judge every record; 25 minutes
	@$(PYTHON) -m faults $(ARGS)

connect-faults: .venv/.ready ## kill workers of a Connect group while its connectors change, 30 times, and judge what runs
	@$(PYTHON) -m faults.connect $(ARGS)

soak: .venv/.ready ## an hour of load and faults: memory, files, requests and topics over time; ARGS="--minutes 5"
	@$(PYTHON) -m soak $(ARGS)

drill: .venv/.ready ## kill the source under twinlog and MirrorMaker 2: what do groups skip, repeat? ARGS=--planned moves
	@$(PYTHON) -m faults.drill $(ARGS)

picture: .venv/.ready ## draw the pictures of the documents from their text
	@$(PYTHON) -m scripts.picture

screenshots: .venv/.ready ## take the documents' pictures of the console; needs Chromium
	@$(PYTHON) -m scripts.screenshots

reference: .venv/.ready ## renew what is written from code: pages of keys, docs/strimzi.md, rights, messages, what travels to tasks
	@$(PYTHON) -m twinlog.config.keys.reference docs
	@$(PYTHON) -m twinlog.config.strimzi.reference > build.reference && mv build.reference docs/strimzi.md
	@$(PYTHON) -m twinlog.ops.acls.reference docs
	@$(PYTHON) -m twinlog.ops.explain.reference docs
	@$(PYTHON) -m twinlog.cli.reference > build.reference && mv build.reference docs/commands.md
	@$(PYTHON) -m tests.unit.lease.contract

docs: .venv/docs/.ready ## the documentation as a site, in build/docs/site: strict, every link followed
	@rm -rf build/docs && mkdir -p build/docs && cp -R docs build/docs/pages && cp zensical.toml build/docs/
	@.venv/docs/bin/zensical build --strict --config-file build/docs/zensical.toml
	@$(PYTHON) -m scripts.check_site build/docs/site

build: .venv/.ready ## the wheel, in dist/
	@$(PYTHON) -m build --wheel --no-isolation

release: .venv/.ready ## everything of a release, in dist/: built, tried, summed up; ARGS="--snapshot --untested" for a try
	@$(PYTHON) -m scripts.release $(ARGS)

image: ## the container image twinlog:VERSION of Containerfile; ENGINE=podman takes another engine than docker
	@$(ENGINE) build --file Containerfile --tag twinlog:$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml) .

COMPILE = CUSTOM_COMPILE_COMMAND="make lock" PIP_FIND_LINKS= .venv/bin/pip-compile --quiet --strip-extras \
	--generate-hashes --allow-unsafe --no-build-isolation --newline lf \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options $(ARGS)

lock: ## resolve requirements/*.txt anew; ARGS=--upgrade takes newer versions
	@test -x .venv/bin/pip-compile || scripts/make_venv.sh
	@$(COMPILE) --output-file requirements/build.txt requirements/build.in
	@$(COMPILE) --constraint requirements/build.txt --output-file requirements/runtime.txt pyproject.toml
	@$(COMPILE) --constraint requirements/build.txt --constraint requirements/runtime.txt \
		--output-file requirements/dev.txt requirements/dev.in pyproject.toml
	@$(COMPILE) --output-file requirements/docs.txt requirements/docs.in

clean: ## remove what was built, .venv included; keep Kafka's jars in .cache
	@rm -rf .venv dist build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests harness demo bench faults soak conformance scripts -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

.venv/.ready: pyproject.toml requirements/build.txt requirements/dev.txt scripts/make_venv.sh
	@scripts/make_venv.sh

.venv/docs/.ready: requirements/docs.txt | .venv/.ready
	@$(PYTHON) -m venv --clear .venv/docs
	@.venv/docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@
