"""What several tests of workers begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.connect.serving import Client, afresh, serving
from tests.unit.connect.strimzi.following import Following


@pytest.fixture
def following(tmp_path: Path) -> Following:
    found = Following(tmp_path)
    assert found.look() == ["put None"]
    return found


@pytest.fixture(scope="module")
def running() -> Iterator[Client]:
    """A REST server that all tests of a file ask."""
    with serving() as client:
        yield client


@pytest.fixture
def client(running: Client) -> Client:
    return afresh(running)
