"""What several tests of connections begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.kafka.connecting import Connect
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop
from twinlog.settings.client import ClientSettings


@pytest.fixture
def clients(loop: Loop) -> Iterator[Connect]:
    """Makes clients that are closed after the test."""
    made: list[ClusterClient] = []

    def make(settings: ClientSettings) -> ClusterClient:
        made.append(ClusterClient(loop, "north", settings))
        return made[-1]

    yield make
    for client in made:
        client.close()
