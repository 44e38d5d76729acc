"""Fixtures of tests with containers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.deploy.strimzi_pods import Pods


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    """Starts containers of Strimzi's operator, and ends them with the test."""
    found = Pods(tmp_path)
    yield found
    for one in found.made:
        one.close()
