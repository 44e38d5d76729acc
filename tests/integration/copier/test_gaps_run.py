"""A gap holds its partition, stops its flow with exit code 1, or is passed, as the policy says, and no other flow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.topics import create_topic, delete_records, delete_topic
from tests.integration.flows.light_flow import copy_what_is_there
from tests.integration.mirror_process import MirrorProcess, flow_properties
from twinlog.lease.progress import Report
from twinlog.model.topic_names import progress_topic
from twinlog.model.types import Alias

FLOWS = {
    "halts": {"twinlog.gap.policy": "stop"},
    "holds": {},
    "leaps": {"twinlog.gap.policy": "continue"},
    "anew": {"twinlog.gap.policy": "continue"},
    "whole": {},
}
"""Aliases of the source, all of one cluster, each with a flow of its own and its settings."""


def numbers(cluster: KafkaCluster, topic: str) -> list[int]:
    return [int(record.value or b"") for record in consume(cluster, topic)]


def gaps(cluster: KafkaCluster, source: str) -> list[str]:
    """Texts of gap events in a flow's progress topic."""
    reports = [Report.decode(record.value or b"") for record in consume(cluster, progress_topic(Alias(source)))]
    return [text for report in reports if report for kind, text in report.events if kind == "gap"]


def test_gaps_stop_their_flow_or_are_recorded(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, new_name: Callable[[str], str], tmp_path: Path
) -> None:
    topics = {alias: create_topic(source_cluster, new_name(alias)) for alias in FLOWS}
    properties = "".join(
        flow_properties(f"{alias}->holey", source_cluster, target_cluster, {"topics": topics[alias], **settings})
        for alias, settings in FLOWS.items()
    )
    clusters = ", ".join((*FLOWS, "holey"))
    twinlog = MirrorProcess(tmp_path, clusters, properties, "--until", "caught-up", "--conf", "spark.ui.enabled=false")
    for topic in topics.values():
        produce(source_cluster, topic, numbered(50))
    for alias in FLOWS:
        copy_what_is_there(twinlog.file, f"{alias}->holey")

    for topic in topics.values():
        produce(source_cluster, topic, numbered(50, start=50))
    delete_records(source_cluster, topics["halts"], 70)
    delete_records(source_cluster, topics["holds"], 70)
    delete_records(source_cluster, topics["leaps"], 70)
    delete_topic(source_cluster, topics["anew"])
    create_topic(source_cluster, topics["anew"])
    produce(source_cluster, topics["anew"], numbered(5, start=1000))
    twinlog.start()
    assert twinlog.wait(240) == 1

    copied = {alias: numbers(target_cluster, f"{alias}.{topic}") for alias, topic in topics.items()}
    assert copied == {
        "halts": list(range(50)),
        "holds": list(range(50)),
        "leaps": [*range(50), *range(70, 100)],
        "anew": [*range(50), *range(1000, 1005)],
        "whole": list(range(100)),
    }
    (failed,) = [line for line in twinlog.log.splitlines() if "FAILED" in line]
    for word in (
        "halts->holey: FAILED",
        f"{topics['halts']}-0: source offsets 50 to 69 (20 offsets) were deleted before they were copied",
        f"set halts->holey.twinlog.gap.policy.{topics['halts']} = skip",
    ):
        assert word in failed
    assert f"leaps->holey: gap: {topics['leaps']}-0: source offsets 50 to 69 (20 offsets)" in twinlog.log
    (halted,) = gaps(target_cluster, "halts")
    assert "the flow stops on it" in halted
    (leapt,) = gaps(target_cluster, "leaps")
    assert "50 to 69 (20 offsets)" in leapt
    assert "continues at offset 70" in leapt
    (recreated,) = gaps(target_cluster, "anew")
    assert "deleted and created again" in recreated
    assert gaps(target_cluster, "whole") == []
    # A run of more than a minute shows its state as well.
    errors = [line for line in twinlog.log.splitlines() if " ERROR " in line]
    (held,) = [line for line in errors if "is held at source offset 50" in line]
    assert f"TW-GAP-01: holds->holey: {topics['holds']}-0 is held" in held
