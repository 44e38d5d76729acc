"""The output of `twinlog groups`, its waiting, and its retries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.virtual.cluster import VirtualCluster
from harness.virtual.faults import Fault
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import LIST_GROUPS, LIST_OFFSETS
from tests.unit.mirror.groups.test_safe_move import STANDS
from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.cli.main import app
from twinlog.errors import ClusterError, RefusedError, TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator, TranslatedGroupOffset
from twinlog.mirror.groups.move_facts import GroupMove, MoveFacts
from twinlog.mirror.groups.safe_move import judge
from twinlog.model.groups import CommittedOffset, GroupListing
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.groups import reader as groups
from twinlog.ops.groups.command import flow_json, lines, missing, summary, wait_until_done
from twinlog.ops.groups.followers import followers
from twinlog.ops.groups.snapshot import GroupPartitionStatus, GroupsSnapshot, GroupStatus
from twinlog.ops.status.readers import ClusterGroups
from twinlog.settings.client import ClientSettings


def group(name: str, *facts: MoveFacts) -> GroupStatus:
    parts = tuple(GroupPartitionStatus(one, judge(one), 5) for one in facts)
    return GroupStatus(name, parts, "Empty", "Stable")


SAFE = group("shop", STANDS)
LATE = group("late", STANDS, replace(STANDS, copied=90))
AHEAD = group("ahead", replace(STANDS, target_committed=75))
MOVED = group("moved", replace(STANDS, active_on_target=True))


def seen(*groups: GroupStatus, **fields: object) -> GroupsSnapshot:
    return replace(GroupsSnapshot("a->b", 7, groups), **fields)


def test_each_partition_is_a_line_and_the_last_line_sums_up() -> None:
    text = lines(seen(SAFE, LATE, MOVED, left_out=("other",)))
    assert text[0] == "a->b"
    assert text[2].split() == ["shop", "orders", "3", "100", "40", "70", "70", "40", "yes"]
    assert text[4].endswith("no: the flow has copied up to 90, 10 before the commit")
    assert text[5].endswith("has moved (Stable on the target)")
    assert text[-2:] == [
        "left out, see them with --group: other",
        "a->b: 1 of 3 groups may move now, 1 has moved; 1 may not: flow-behind; that passes with time",
    ]


def test_somebody_who_has_to_act_is_told_for_which_group() -> None:
    assert summary(seen(AHEAD, SAFE)) == (
        "a->b: 1 of 2 groups may move now; 1 may not: target-ahead; an operator has to act for ahead"
    )
    assert "all groups that it follows" in summary(seen())


def test_each_group_is_in_a_single_clause_of_the_sum() -> None:
    """A switchover may have moved a group in a part of its partitions: it may move, or has to wait."""
    there = replace(STANDS, move=GroupMove(SourceOffset(100), TargetOffset(70)))
    assert judge(there).moved
    partly = group("partly", there, STANDS)
    copies = group("copies", replace(STANDS, active_on_target=True, left_to_switchover=True))
    every = (SAFE, LATE, AHEAD, MOVED, partly, copies, group("late-partly", there, LATE.partitions[1].facts))
    for one in (*every, group("gone")):
        assert [one.safe, one.moved, not one.done].count(True) == 1, one.group
    assert summary(seen(AHEAD, partly)).startswith("a->b: 1 of 2 groups may move now; 1 may not: target-ahead;")
    assert summary(seen(copies)) == "a->b: 0 of 1 group may move now, 1 has moved"
    assert flow_json(seen(partly))["groups"][0]["safe"]


def test_a_group_that_moved_back_has_not_moved_while_the_returned_target_lacks_the_end_of_its_move() -> None:
    command = "twinlog switchover FILE --from b --to a --emergency"
    move = GroupMove(SourceOffset(100), TargetOffset(70))
    there = replace(STANDS, copied=90, move=move)
    assert summary(seen(group("shop", there))).endswith("1 has moved")
    assert flow_json(seen(group("shop", there)))["moved_back"] == []
    found = seen(group("shop", replace(there, move=replace(move, ended_by=command))), SAFE)
    lacks = "a later switchover moved shop back to the source, and the target lacks the end of the move before"
    assert lines(found)[-2:] == [
        f"TW-GROUP-11: {lacks}: run {command} again to end it",
        "a->b: 1 of 2 groups may move now; 1 may not: flow-behind; that passes with time",
    ]
    assert flow_json(found)["moved_back"] == [{"groups": ["shop"], "command": command}]


def test_a_group_that_the_source_has_forgotten_may_not_move() -> None:
    text = lines(seen(group("gone")))
    assert text[2].startswith("gone")
    assert text[2].endswith("no: its offsets on the source are gone")
    assert text[-1] == (
        "a->b: 0 of 1 group may move now; 1 may not: its offsets on the source are gone; an operator has to act for "
        "gone"
    )


def test_json_has_each_reason_with_its_name() -> None:
    (found,) = flow_json(seen(LATE))["groups"]
    first, second = found["partitions"]
    assert (found["safe"], first["safe"], first["reasons"], second["copied_up_to"]) == (False, True, [], 90)
    assert second["reasons"][0]["reason"] == "flow-behind"
    assert (second["reasons"][0]["heals"], first["checkpoint"]["written_ms"]) == (True, 5)


class Time:
    """Looks that answer one after the other, an error or groups; each sleep takes its time."""

    def __init__(self, *answers: TwinlogError | list[GroupsSnapshot]) -> None:
        self.answers = list(answers)
        self.now = 0.0

    def look(self) -> list[GroupsSnapshot]:
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, TwinlogError):
            raise found
        return found

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, timeout_s: float) -> list[GroupsSnapshot]:
        return wait_until_done(self.look, timeout_s, lambda: self.now, self.sleep)


def test_waiting_ends_when_all_may_move_and_tells_what_is_missing_once(capsys: pytest.CaptureFixture[str]) -> None:
    time = Time([seen(LATE)], [seen(LATE)], ClusterError("away"), [seen(SAFE, MOVED)])
    assert time.wait(60) == [seen(SAFE, MOVED)]
    assert time.now == 3.0
    assert capsys.readouterr().err.splitlines() == [
        "0 s of 60 s: a->b: 1 of 1 group has to wait, late: the flow has copied up to 90, 10 before the commit",
        "2 s of 60 s: away",
    ]


def test_waiting_ends_when_its_time_is_over() -> None:
    time = Time([seen(LATE)])
    assert time.wait(2.5) == [seen(LATE)]
    assert time.now == 2.5
    with pytest.raises(ClusterError, match="away"):
        Time(ClusterError("away")).wait(2.0)
    assert Time([seen()]).wait(1.0) == [seen()], "no group at all is nothing that may move"


def test_waiting_does_not_go_on_without_a_right() -> None:
    time = Time(RefusedError("no DESCRIBE"))
    with pytest.raises(RefusedError):
        time.wait(60)
    assert time.now == 0.0


def test_nothing_missing_is_not_told() -> None:
    assert missing(seen(SAFE)) == ""
    assert missing(seen()) == "a->b: no group to move"


def test_a_checkpoint_connector_follows_what_the_source_connectors_of_its_clusters_copy() -> None:
    source = replace(SETTINGS, kind="source", connector_name="copy")
    other = replace(source, source="x", connector_name="other")
    follows = replace(SETTINGS, kind="checkpoint", connector_name="follow")
    (found,) = followers([source, other, follows])
    assert (found.settings, found.copied_by, found.reverse) == (follows, (source,), None)
    with pytest.raises(TwinlogError, match="add the file of a MirrorCheckpointConnector"):
        followers([source])
    back = replace(SETTINGS, source="b", target="a", enabled=False)
    assert followers([SETTINGS, back])[0].reverse == back


FILE = """\
clusters = s, w
s.bootstrap.servers = s-1:9092
w.bootstrap.servers = w-1:9092
s->w.enabled = true
"""

Clusters = tuple[VirtualCluster, VirtualCluster]


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clusters]:
    """A flow that has begun, and no group."""
    with virtual_loop(1) as loop:
        source, target = VirtualCluster(loop, "s"), VirtualCluster(loop, "w")
        for topic in ("mm2-offsets.s.internal", "mm2-twinlog-offsets.s.internal", "s.checkpoints.internal"):
            target.create(topic)
        source.create("mm2-offset-syncs.w.internal")

        def connect(alias: str, client: ClientSettings) -> ClusterAdmin:
            return ClusterAdmin(alias, client, VirtualLoop(loop.world))

        # It is the process's own.
        monkeypatch.setattr("twinlog.ops.groups.command.log_warnings", lambda: None)
        monkeypatch.setattr(groups, "GroupsReader", partial(groups.GroupsReader, connect=connect))
        yield source, target


def run(tmp_path: Path, *options: str, more: str = "") -> tuple[int, str]:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE + more)
    done = CliRunner().invoke(app, ["groups", str(file), *options])
    return done.exit_code, done.stdout + done.stderr


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(("times", "answers"), [(1, True), (2, False)])
def test_a_cluster_is_asked_again_before_it_counts_as_dead(
    clusters: Clusters, tmp_path: Path, side: int, times: int, answers: bool
) -> None:
    clusters[side].fault(LIST_GROUPS, Fault(lost=True), times=times)
    code, out = run(tmp_path)
    assert clusters[side].faults_left == 0
    if answers:
        assert (code, out) == (1, "s->w: all groups that it follows lack offsets in the topics that it mirrors\n")
    else:
        assert code == 3
        assert ("the source is silent" in out) == (side == 0)


def test_what_the_flow_has_stored_is_asked_for_again(clusters: Clusters, tmp_path: Path) -> None:
    clusters[1].fault(LIST_OFFSETS, Fault(lost=True), topic="mm2-offsets.s.internal")
    assert run(tmp_path)[0] == 1
    assert clusters[1].faults_left == 0


def test_the_loss_of_a_cluster_leaves_the_flow_to_the_other_cluster_readable(
    clusters: Clusters, tmp_path: Path
) -> None:
    source, _ = clusters
    source.fault(LIST_GROUPS, Fault(lost=True), times=99)
    code, out = run(tmp_path, more="w->s.enabled = true\n")
    assert code == 3
    assert "the source is silent, these are the facts of the target" in out
    assert "s->w: all groups that it follows lack offsets" in out
    assert [line for line in out.splitlines() if line.startswith("twinlog: TW-") and "cluster s" in line]


def test_a_deleted_position_in_an_unmirrored_topic_is_left_untranslated(
    clusters: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its translation would read all offset syncs, in vain."""
    source, _ = clusters
    mirrored, private = (TopicPartition(TopicName(name), 0) for name in ("t", "private"))
    for where in (mirrored, private):
        (log,) = source.create(where.topic)
        log.start = 5
    shop = GroupId("shop")
    here = ClusterGroups(
        {shop: GroupListing(shop, "consumer", "Empty")},
        {shop: {mirrored: CommittedOffset(3), private: CommittedOffset(3)}},
    )
    asked: list[TopicPartition] = []
    translate = GroupOffsetTranslator.translate_offset

    def ask(
        translator: GroupOffsetTranslator, where: TopicPartition, offset: SourceOffset
    ) -> TranslatedGroupOffset | None:
        asked.append(where)
        return translate(translator, where, offset)

    monkeypatch.setattr(groups, "read_groups", lambda cluster, *_: here if cluster.alias == "s" else ClusterGroups())
    monkeypatch.setattr(GroupOffsetTranslator, "translate_offset", ask)
    code, out = run(tmp_path, more="topics = t\n")
    assert code == 1
    assert "private" in out
    assert set(asked) == {mirrored}


@pytest.mark.parametrize(("name", "hint"), [("bilings", True), ("billing", False)])
def test_a_refused_group_outside_the_groups_of_the_flow_may_be_misspelt(
    clusters: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, hint: bool
) -> None:
    def refuse(cluster: ClusterAdmin, *_: object) -> None:
        raise cluster.client.lacks("DESCRIBE", f"group {name}", "reading its offsets")

    monkeypatch.setattr(groups, "read_groups", refuse)
    code, out = run(tmp_path, "--group", name, more="groups = billing, shop\n")
    assert code == 3
    assert f"lacks DESCRIBE on group {name}" in out
    assert ("or correct the name, as the groups of s->w leave out bilings: billing, shop" in out) is hint
