"""The console of a flow that runs: its pages have the brokers' own answers, and an action is done once."""

from __future__ import annotations

import socket
import urllib.error

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.groups import commit_offsets
from harness.produce import numbered, produce
from harness.topics import offsets
from harness.wait import wait_for
from tests.integration.ui.scene import Scene
from tests.integration.ui.visitor import Visitor

START_S = 180.0
LOOK_S = 60.0


def newest_ms(cluster: KafkaCluster, topic: str, partition: int) -> int:
    """The newest timestamp of the records of a partition."""
    return max(one.timestamp for one in consume(cluster, topic, partitions=[partition]))


def test_pages_have_the_answers_of_the_brokers_and_actions_are_done(scene: Scene) -> None:
    visitor = scene.visitor

    def all_copied() -> bool:
        return [row["source_offset"] for row in scene.partitions()] == [40, 60]

    wait_for(all_copied, LOOK_S, "the topic's page shows all records as copied")
    wait_for(lambda: scene.overview()["state"] == "running", LOOK_S, "the overview shows the flow as running")
    assert scene.overview()["figures"]["lag"]["records"] == 0
    for row, number in zip(scene.partitions(), (0, 1), strict=True):
        assert (row["source_start"], row["source_end"]) == offsets(scene.left, scene.topic, number)
        assert row["target_offset"] == offsets(scene.right, scene.remote, number)[1]

    def newest_is_shown() -> bool:
        shown = [(row["source_newest_ms"], row["copy_newest_ms"]) for row in scene.partitions()]
        return shown == [
            (newest_ms(scene.left, scene.topic, number), newest_ms(scene.right, scene.remote, number))
            for number in (0, 1)
        ]

    wait_for(newest_is_shown, LOOK_S, "the page shows the times of the newest records")

    def tasks_are_shown() -> bool:
        found = visitor.json("/flow", flow=scene.flow)["tasks"]["first"]
        places = {(one["host"], one["executor"]) for one in found}
        return places == {(socket.gethostname(), "driver")} and sum(one["partitions"] for one in found) == 2

    wait_for(tasks_are_shown, LOOK_S, "the page of the flow shows its tasks with host, executor and partitions")

    def group_is_there() -> bool:
        found = visitor.json("/group", flow=scene.flow, group=scene.group)["partitions"]["rows"]
        return [(one["source_offset"], one["target_offset"]) for one in found] == [(10, 10)]

    # The process that copies serves the same pages.
    own = Visitor(scene.own_port)
    wait_for(lambda: own.json("/overview")["flows"][0]["state"] == "running", LOOK_S, "the run's own console shows it")
    assert own.json("/topic", flow=scene.flow, topic=scene.topic)["partitions"]["rows"]

    wait_for(group_is_there, LOOK_S, "the page of the group shows its offsets on both sides")

    def group_syncs() -> list[tuple[str, str, int | None, int]]:
        found = visitor.json("/group", flow=scene.flow, group=scene.group)["syncs"]
        return [(one["kind"], one["partition"], one["source_offset"], one["target_offset"]) for one in found]

    # The checkpoints before this commit are still in the topic; the console sees the commit on the target change. A
    # group that commits before the first copies gets a checkpoint at their begin first.
    before = group_syncs()
    assert before[0] == ("checkpoint", f"{scene.remote}-0", 10, 10)
    assert {one[:3] for one in before} == {before[0][:3]}
    commit_offsets(scene.left, {scene.group: {(scene.topic, 0): 20}})
    wait_for(
        lambda: len(group_syncs()) == 2 + len(before),
        LOOK_S,
        "the page of the group shows the next checkpoint and its commit",
    )
    assert group_syncs()[2:] == before
    assert {one[0] for one in group_syncs()[:2]} == {"checkpoint", "commit"}
    assert {one[1:] for one in group_syncs()[:2]} == {(f"{scene.remote}-0", 20, 20)}
    history = visitor.json("/history", flow=scene.flow)
    assert (history["trouble"], history["reading"]) == (None, False)
    assert len(history["at_s"]) > 1
    assert history["lag"][-1] == 0
    page = visitor.page("/records", flow=scene.flow, topic=scene.topic, partition="0", place="offset", value="5")
    assert scene.remote in page
    with visitor.open("/") as answer:
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]

    # A live update, then an action, its effect on the copying, and the way back.
    produce(scene.left, scene.topic, numbered(5, start=40), partition=0)
    wait_for(lambda: scene.partitions()[0]["source_offset"] == 45, LOOK_S, "new records are shown as copied")
    assert "pause" in scene.act("pause")
    wait_for(lambda: {row["state"] for row in scene.partitions()} == {"paused"}, LOOK_S, "both partitions are paused")
    produce(scene.left, scene.topic, numbered(5, start=45), partition=0)
    wait_for(lambda: scene.partitions()[0]["source_end"] == 50, LOOK_S, "the new end is shown")
    assert len(consume(scene.right, scene.remote, partitions=[0])) == 45
    scene.act("resume")
    wait_for(lambda: len(consume(scene.right, scene.remote, partitions=[0])) == 50, LOOK_S, "the rest is copied")

    # Without the token of the session nothing is done.
    form = {"flow": scene.flow, "topic": scene.topic, "verb": "pause", "token": "wrong", "id": "x"}
    with pytest.raises(urllib.error.HTTPError) as refused:
        visitor.open("/topic/act", form)
    refused.value.close()
    assert refused.value.code == 403
    assert scene.console.terminate(30)
    log = scene.console.log.read_text(encoding="utf-8")
    assert log.count('action="pause"') == 1
    assert log.count('action="resume"') == 1
    assert "Traceback" not in log
