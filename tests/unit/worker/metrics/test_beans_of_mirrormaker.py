"""Our beans beside those that a real MirrorMaker 2 of Kafka 4.3 registered (`tests/recorded/beans.py`)."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.worker.metrics.measured import Scene, report
from twinlog.worker.metrics.connector_beans import WorkerFacts, worker_beans
from twinlog.worker.metrics.meters import RecentTimes

RECORDED = Path(__file__).parents[3] / "recorded" / "beans.tsv"
OTHERS = ("MirrorHeartbeatConnector", "topic=east.heartbeats")
"""The scene has neither."""

MISSING = {
    "connector-task-metrics": {
        *(f"{of}-converter-{what}" for of in ("key", "value", "header") for what in ("class", "version")),
    },
    "source-task-metrics": {"poll-batch-avg-time-ms", "poll-batch-max-time-ms"},
}
"""Attributes of what nothing here does, by the type of the bean; docs/metrics.md says so."""

OF_COPYING = {
    *("batch-size-avg", "batch-size-max", "offset-commit-avg-time-ms", "offset-commit-max-time-ms"),
    *("offset-commit-failure-percentage", "offset-commit-success-percentage"),
}
"""Attributes that only the tasks of a source connector have here: others read and write no records."""

OURS = {"replication-record-lag"}


def recorded() -> dict[str, set[str]]:
    lines = [line.split("\t") for line in RECORDED.read_text(encoding="utf-8").splitlines()]
    return {name: set(attributes.split()) for name, attributes in lines if not any(word in name for word in OTHERS)}


def measured() -> dict[str, set[str]]:
    scene = Scene("MirrorSourceConnector")
    scene.formats = ("legacy", "new")
    scene.take(report(records=10))
    scene.checkpoint()
    beans = json.loads(scene.pages.json())["value"]
    return {name: set(attributes) for name, attributes in beans.items()}


def test_each_bean_of_mirrormaker_is_there_with_the_same_attributes() -> None:
    found = measured()
    for name, attributes in recorded().items():
        type_ = name.partition("type=")[2].partition(",")[0]
        checkpoints = "connector=MirrorCheckpointConnector" in name
        if type_ == "source-task-metrics" and checkpoints:
            continue
        missing = MISSING.get(type_, set()) | (
            OF_COPYING if checkpoints and type_ == "connector-task-metrics" else set()
        )
        assert name in found
        assert found[name] - OURS == attributes - missing, name


def test_what_was_recorded_has_the_beans_of_both_connectors_in_both_forms() -> None:
    kinds = ("type=MirrorSourceConnector,", "type=MirrorCheckpointConnector,", "type=plugins,")
    assert all(any(kind in name for name in recorded()) for kind in kinds)
    assert len(recorded()) > 10


def test_a_rebalance_is_measured_for_a_minute() -> None:
    times = RecentTimes()
    times.add(100.0, 100.5)
    times.add(120.0, 121.5)
    assert times.within(130.0) == [500.0, 1500.0]
    assert times.within(165.0) == [1500.0]
    facts = WorkerFacts("c", "1", 1, [], rebalance_times_ms=times.within(130.0))
    found = next(
        attributes for table in worker_beans(facts) for name, attributes in table.named() if "rebalance" in name
    )
    assert (found["rebalance-max-time-ms"], found["rebalance-avg-time-ms"]) == (1500.0, 1000.0)
