"""Fixtures for every test."""

from __future__ import annotations

import gc
import importlib.util
import itertools
import logging
import random
import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from zlib import crc32

import hypothesis
import pytest

import harness.child  # noqa: F401 - what tests start is to be interrupted, whoever started them
from tests import monotonic_start
from tests.seeds import chance_of, own_number, seed_of
from twinlog.kafka.net.loop import Loop

if importlib.util.find_spec("helm_python") is None:
    # There is no wheel of it for this kind of machine, see requirements/dev.in.
    collect_ignore = [
        "unit/deploy/test_chart.py",
        "unit/scripts/release/test_chart_release.py",
        "integration/deploy/test_kubernetes.py",
    ]
logging.getLogger("kafka").setLevel(logging.WARNING)
_LEVELS = {name: logging.getLogger(name).level for name in ("twinlog", "twinlog.mirror.topics.checks", "kafka", "py4j")}
# A machine may be slow, and no test is about time.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
# `make test` draws the same each time, so that more examples would find no more; `make draws` draws others, and more.
hypothesis.settings.register_profile("few", hypothesis.settings.get_profile("patient"), max_examples=25)
hypothesis.settings.load_profile("few")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--half", type=int, choices=(1, 2), help="one of two halves of the files, by their names")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    half = config.getoption("half", None)
    if half is None or collection_path.suffix != ".py":
        return None
    return True if crc32(collection_path.name.encode()) % 2 != half - 1 else None


def pytest_configure() -> None:
    monotonic_start.begin()


def pytest_itemcollected(item: pytest.Item) -> None:
    # Before `-m` chooses among them.
    test = getattr(item, "obj", None)
    if "chance" in getattr(item, "fixturenames", ()) or (test is not None and hypothesis.is_hypothesis_test(test)):
        item.add_marker(pytest.mark.drawn)


def pytest_collectstart() -> None:
    # Thousands of tests stay to the end: the garbage collector need not go through them each time.
    gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    test = getattr(item, "obj", None)
    if test is not None and hypothesis.is_hypothesis_test(test):
        hypothesis.seed(seed_of(item))(test)


@pytest.fixture(autouse=True)
def own_levels() -> Iterator[None]:
    """Commands that are called in this process set levels of loggers for good, in fixtures of a module, too."""
    _set_levels()
    yield
    _set_levels()


def _set_levels() -> None:
    for name, level in _LEVELS.items():
        logger = logging.getLogger(name)
        # Setting one goes through all loggers there are.
        if logger.level != level:
            logger.setLevel(level)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        seed = item.config.getoption("randomly_seed", None)
        again = "-p no:randomly" if seed is None else f"--randomly-seed={seed}"
        report.sections.append(("Seed", f"{again} draws the same again"))
    return report


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """What a test draws from: the same again with the same `--randomly-seed`, in whatever order and beside whatever."""
    return chance_of(request.node)


@pytest.fixture
def loop() -> Iterator[Loop]:
    """An event loop that turns while a test runs something on it."""
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def turning_loop() -> Iterator[Loop]:
    """One that turns all the time, on a thread of its own."""
    loop = Loop()
    loop.net.start()
    yield loop
    loop.net.stop(timeout_ms=60_000)
    loop.close()


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names no other test uses: for topics, groups, transactional ids."""
    test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")[:60]
    numbers = itertools.count(1)
    # Tests of two files may have one name.
    return lambda kind: f"{kind}-{test}-{own_number(request.node)}-{next(numbers)}"


@pytest.fixture
def topic_name(new_name: Callable[[str], str]) -> str:
    """A topic name no other test uses; the topic does not exist yet."""
    return new_name("t")
