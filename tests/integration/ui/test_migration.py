"""From two addresses to a finished switchover on the pages of the console, without a file written by hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.groups import commit_offsets, group_offsets
from harness.produce import numbered, produce
from harness.topics import create_topic
from harness.wait import wait_for
from tests.integration.ui.newcomer import START_S, Newcomer

TOPICS, RECORDS = 3, 100


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    found = Newcomer(tmp_path)
    try:
        found.start()
        yield found
    finally:
        found.close()


def test_from_two_addresses_to_a_finished_switchover(
    newcomer: Newcomer, clusters: tuple[KafkaCluster, KafkaCluster], tmp_path: Path, new_name: Callable[[str], str]
) -> None:
    left, right = clusters
    visitor, here, there = newcomer.visitor, f"old{os.getpid()}", f"new{os.getpid()}"
    names = [create_topic(left, new_name("t"), 2) for _ in range(TOPICS)]
    group = new_name("g")
    for name in names:
        produce(left, name, numbered(RECORDS), partition=0)
    commit_offsets(left, {group: {(name, 0): 40 + number for number, name in enumerate(names)}})

    addresses = [("source_alias", here), ("source_servers", left.bootstrap), ("source_protocol", "PLAINTEXT")]
    addresses += [("target_alias", there), ("target_servers", right.bootstrap), ("target_protocol", "PLAINTEXT")]
    place = newcomer.send("/migration", "/migration/look", *addresses)
    migration = place.partition("id=")[2]
    choice = visitor.json("/migration/choose", id=migration)
    rows = {row["topic"]: row for row in choice["topics"]}
    assert all((rows[name]["partitions"], rows[name]["records"]) == (2, RECORDS) for name in names)
    assert group in [row["group"] for row in choice["groups"]]

    ticks = [("names", "kept"), ("groups", "yes"), *(("topic", name) for name in names), ("group", group)]
    newcomer.send("/migration/choose", "/migration/plan", *ticks, id=migration)
    plan = visitor.json("/migration/plan", id=migration)
    assert plan["problems"] == []
    assert plan["records"] == TOPICS * RECORDS
    assert {one["topic"] for one in plan["copies"]} >= set(names)

    flow = f"{here}->{there}"
    place = newcomer.send("/migration/plan", "/migration/run", ("mode", "run"), id=migration)
    assert "/ui/readiness?flow=" in place
    (file,) = tmp_path.glob("*.properties")

    def ready() -> Any:
        found = visitor.json("/readiness", flow=flow)
        return found["ready"] == "yes" and found["loss_if_source_is_lost"] == 0

    wait_for(ready, START_S, "a switchover may begin", every_s=1.0)
    assert all(len(consume(right, name)) == RECORDS for name in names)

    fields = [("fence", "none"), ("near", "100"), ("timeout", "120"), ("typed", there)]
    query = {"flow": flow, "mode": "run", "kind": "planned"}
    newcomer.send("/switchover/confirm", "/switchover/act", *fields, **query)

    def done() -> bool:
        found = visitor.json("/switchover", flow=flow)
        assert found["conducted"]["trouble"] is None, found
        return not found["conducted"]["runs"] and found["report"].get("state") == "done"

    wait_for(done, START_S, "the switchover is done", every_s=0.5)
    report = visitor.json("/switchover", flow=flow)["report"]
    assert (report["skipped"], report["repeated"], report["unknown_groups"]) == (0, 0, 0)
    offsets = group_offsets(right, [group])[group]
    assert {place: one.offset for place, one in offsets.items()} == {
        (name, 0): 40 + number for number, name in enumerate(names)
    }
    assert "point producers to" in visitor.page("/switchover", flow=flow)
    newcomer.send("/switchover/confirm", "/switchover/act", ("typed", there), flow=flow, mode="release", kind="planned")
    wait_for(done, START_S, "the fence is lifted", every_s=0.5)

    # The run ends with the console.
    process = visitor.json("/migration/plan", id=migration)["process"]
    assert newcomer.console.terminate(60)
    wait_for(lambda: not Path(f"/proc/{process['pid']}").exists(), 60, "the run has ended")
    assert "Traceback" not in newcomer.console.log.read_text(encoding="utf-8")
    assert "Traceback" not in file.with_suffix(".log").read_text(encoding="utf-8")
