"""One of the rounds of `make connect-faults`: workers are killed while their connectors change.

`tests/property/test_herder_laws.py` has such courses of events in virtual time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.connect_group import Group
from harness.cluster import KafkaCluster


@pytest.mark.scenario
def test_what_runs_after_workers_were_killed_is_what_was_acknowledged(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], chance: random.Random, tmp_path: Path
) -> None:
    source, target = clusters
    with Group(tmp_path, source, target, new_name("g"), chance, sources=1) as group:
        one = group.play(1)
        assert one.fine, one
        assert one.killed
        assert one.acknowledged
