"""What the tests of the console share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.cluster import KafkaCluster
from tests.integration.ui.scene import Scene


@pytest.fixture
def scene(
    clusters: tuple[KafkaCluster, KafkaCluster], tmp_path: Path, new_name: Callable[[str], str]
) -> Iterator[Scene]:
    with Scene(clusters, tmp_path, new_name) as found:
        yield found
