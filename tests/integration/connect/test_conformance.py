"""A worker answers what Connect 4.3's own answered, call by call. `make conformance` asks the rest of the calls."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from conformance.compare import is_late, with_golden
from conformance.play import play
from conformance.resources import RESOURCES
from conformance.resources.arrangements import PLAIN
from conformance.scene import furnish
from conformance.stage import Stage
from conformance.worker import WORKERS
from harness.checks.differences import readable
from harness.cluster import KafkaCluster

TWINLOG = "twinlog"
WITH_SPARK = {"status", "lifecycle", "offsets-source", "topics", "client-scripts"}
"""What runs source connectors, and waits for them: minutes on a loaded machine."""
ASKED = [one for one in RESOURCES if one.arrangement is PLAIN and one.name not in WITH_SPARK]
AT_LEAST = 600


def test_a_worker_answers_as_connect_does(clusters: tuple[KafkaCluster, KafkaCluster], tmp_path: Path) -> None:
    source, target = clusters
    furnish(source)
    kind = WORKERS[TWINLOG]
    differ: list[str] = []
    calls = 0
    with Stage(PLAIN, kind.launch, source, target, tmp_path) as stage:
        for resource in ASKED:
            kept = list(play(resource, stage, kind.release, partial(is_late, kind.release, TWINLOG, resource.name)))
            stage.clear()
            calls += len(kept)
            found = with_golden(kind.release, resource.name, kept, TWINLOG)
            if found:
                differ.append(readable(found, f"Kafka {kind.release}", TWINLOG))
        log = stage.workers["worker-1"].log.read_text(encoding="utf-8")
    assert not differ, "\n".join(differ)
    assert calls >= AT_LEAST
    assert "Traceback" not in log
