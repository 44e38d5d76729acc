"""Fixtures for every test."""

from __future__ import annotations

import itertools
import logging
import os
import re
from collections.abc import Callable, Iterator

import hypothesis
import pytest

from twinlog.kafka.net.loop import Loop

_numbers = itertools.count(1)
logging.getLogger("kafka").setLevel(logging.WARNING)
# A machine may be slow, and no test is about time.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("patient")


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
    return lambda kind: f"{kind}-{test}-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def topic_name(new_name: Callable[[str], str]) -> str:
    """A topic name no other test uses; the topic does not exist yet."""
    return new_name("t")
