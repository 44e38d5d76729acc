"""Commands, status and metrics name a group whose position the target has deleted, in copies of the way back, too."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from math import inf

import pytest

from harness.cluster import KafkaCluster
from harness.groups import commit_offsets
from harness.produce import numbered, produce
from harness.topics import create_topic, delete_records
from harness.wait import wait_for
from tests.integration.flows.light_flow import copy_what_is_there
from tests.integration.ops.switchover.commands import PARTITIONS, Commands, enter_group, stands
from tests.integration.ops.switchover.following import followed_groups
from twinlog.mirror.groups import deleted_positions, unsafe_groups
from twinlog.worker.flows_without_spark import GroupsFlow
from twinlog.worker.status.families import seconds_to_safe_failover


@pytest.mark.scenario
def test_deleted_positions_are_named_alike_in_remote_topics_and_in_copies_of_the_way_back(
    pair: tuple[KafkaCluster, KafkaCluster],
    commands: Commands,
    topic_name: str,
    stack: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deleted_positions, "LOOK_S", 1.0)
    monkeypatch.setattr(unsafe_groups, "SAME_S", 1.0)
    east, west = pair
    topic, remote, copy = topic_name, f"east.{topic_name}", f"west.{topic_name}"
    own, returns = f"g-{topic}-own", f"g-{topic}-returns"
    file = commands.file("east->west", "west->east")
    for cluster in pair:
        create_topic(cluster, topic, PARTITIONS)
        produce(cluster, topic, numbered(100))
    for name in ("east->west", "west->east"):
        copy_what_is_there(file, name)
    # On west, only a switchover commits the position of the second group.
    commit_offsets(east, {own: {(topic, 0): 20}, returns: {(copy, 0): 50}})
    commit_offsets(west, {returns: {(topic, 0): 50}})
    followed = followed_groups(stack, file, "east->west")
    wait_for(lambda: stands(west, own, remote)[0] == 20, 60, "the flow has committed the position")
    wait_before_start(followed, 0)
    told = commands.run("groups", file, "--flow", "east:west")
    assert "2 of 2 groups may move now" in told
    progress = followed.report().groups
    assert progress is not None
    assert progress.followed == 1, "the other group waits for a switchover"

    delete_records(west, remote, 30)
    wait_before_start(followed, 1)
    delete_records(west, topic, 60)
    wait_before_start(followed, 2)
    told = commands.run("groups", file, "--flow", "east:west", code=1)
    assert "on the target the group continues at 20, and the log begins at 30" in told
    assert "on the target the group continues at 50, and the log begins at 60" in told
    wait_for(
        lambda: "2 before the first record" in commands.run("status", file, code=None), 60, "status counts both groups"
    )
    audited = json.loads(commands.run("audit", file, "--flow", "east:west", "-o", "json", code=None))
    unclear = [one["text"] for one in audited["findings"] if one["kind"] == "group-unclear"]
    for group in (own, returns):
        (text,) = (one for one in unclear if one.startswith(f"group {group} is unable to move to west"))
        assert "the log begins at" in text
    enter_group(stack, west, "east-mm2", remote)
    rehearsed = commands.run("switchover", file, "--from", "east", "--to", "west", "--fence", "none", "--dry-run")
    assert f"{remote}-0: there; on the target the group continues at 20" in rehearsed
    assert f"{topic}-0: there; on the target the group continues at 50" in rehearsed

    # The source deletes the positions, too, and has a record less than the target.
    delete_records(east, topic, 31)
    delete_records(east, copy, 61)
    wait_before_start(followed, 0)
    told = commands.run("groups", file, "--flow", "east:west")
    assert "2 of 2 groups may move now" in told
    audited = json.loads(commands.run("audit", file, "--flow", "east:west", "-o", "json", code=None))
    assert not [one for one in audited["findings"] if one["kind"] == "group-unclear"]
    assert f"{own} stays" not in commands.run("plan", file, "--flow", "east:west", code=None)
    rehearsed = commands.run("switchover", file, "--from", "east", "--to", "west", "--fence", "none", "--dry-run")
    assert "the log begins at" not in rehearsed

    delete_records(west, remote, 32)
    wait_before_start(followed, 1)
    told = commands.run("groups", file, "--flow", "east:west", code=1)
    assert "the log begins at 32: it lacks up to 1 record of the source's log" in told
    assert "1 of 2 groups may move now" in told
    rehearsed = commands.run("switchover", file, "--from", "east", "--to", "west", "--fence", "none", "--dry-run")
    assert f"{remote}-0: there; on the target the group continues at 20, and the log begins at 32" in rehearsed

    commit_offsets(west, {own: {(remote, 0): 32}, returns: {(topic, 0): 60}})
    wait_before_start(followed, 0)


def wait_before_start(flow: GroupsFlow, count: int) -> None:
    """Wait until the metrics of a flow count so many groups before the first record of the target."""

    def looked() -> bool:
        flow.poll_flow()
        report = flow.report()
        if report.groups is None or report.groups.before_start != count:
            return False
        # Other processes copy, here light flows.
        copied = replace(report, lag=0, lag_age_s=0.0, unknown=0)
        return seconds_to_safe_failover(copied) == (inf if count else 0)

    wait_for(looked, 60, f"{count} groups are before the first record")
