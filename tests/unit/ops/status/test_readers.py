"""A silent coordinator leaves a group unknown; and the states of connectors as their workers report them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.errors import ClusterError, GroupGoneError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.last_records import KeptRecord, LastRecords
from twinlog.mirror.groups import group_offsets
from twinlog.mirror.groups.group_offsets import TranslatedGroupOffset
from twinlog.mirror.groups.move_facts import GroupMove
from twinlog.mirror.groups.safe_move import Obstacle, Reason
from twinlog.mirror.records import Checkpoint
from twinlog.mirror.topology.filters import DefaultTopicFilter
from twinlog.mirror.unlisted_topics import HiddenOffsets
from twinlog.model.groups import CommittedOffset, GroupListing, GroupMember, GroupMembers, GroupOffsets
from twinlog.model.types import Alias, GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.audit.groups import group_findings
from twinlog.ops.groups.command import flow_json, lines, missing
from twinlog.ops.groups.reader import GroupsReader
from twinlog.ops.groups.snapshot import GroupsSnapshot
from twinlog.ops.inventory import LogOffsets
from twinlog.ops.status import readers
from twinlog.ops.status.readers import ClusterGroups, ConnectorSnapshot, ConnectorsReader, ReportedState

SYNCED = replace(flow("a", "b", "default"), sync_group_offsets_interval_s=1.0)
SHOP, BILLING = GroupId("shop"), GroupId("billing")
HERE, THERE = TopicPartition(TopicName("t"), 0), TopicPartition(TopicName("a.t"), 0)


class Cluster:
    """The groups `shop` and `billing`; the coordinator of `shop` answers with `code` and does not list it."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.client = SimpleNamespace(connected=True)
        self.clock = VirtualClock()
        self.code = 0
        self.answers_at = float("inf")
        self.kept = self.commits = True
        self.in_transaction = False
        """Whether `shop` has committed more in one, as its coordinator knows."""
        self.where = HERE if alias == "a" else THERE
        self.copies: GroupOffsets = {}
        """Further offsets of both groups."""

    def call(self, step: Callable[..., Any], *args: Any) -> Any:
        code = self.code if self.clock.monotonic() < self.answers_at else 0
        there = [BILLING] if code else [BILLING, SHOP]
        if step.__name__ == GroupAdmin.listed.__name__:
            return {
                group: GroupListing(group, "consumer", "Stable" if self.alias == "a" else "Empty") for group in there
            }
        if step.__name__ == GroupAdmin.unlisted.__name__:
            return 1 if code == Code.COORDINATOR_NOT_AVAILABLE and self.kept else 0
        if step.__name__ == GroupAdmin.kept.__name__:
            return self.kept
        (groups,) = args
        committed: GroupOffsets = {self.where: CommittedOffset(5), **self.copies} if self.commits else {}
        if self.in_transaction and step.__name__ == GroupAdmin.stable_offsets.__name__:
            code = code or Code.UNSTABLE_OFFSET_COMMIT
        wrong = {SHOP: int(code)} if code and SHOP in groups else {}
        return {group: committed for group in groups if group not in wrong}, wrong


class Scene:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.source, self.target = Cluster("a"), Cluster("b")
        self.hidden: HiddenOffsets | None = None

        def connect(alias: Alias, _: object) -> ClusterAdmin:
            return cast(ClusterAdmin, self.source if alias == "a" else self.target)

        self.reader = GroupsReader(SYNCED, connect=cast(Any, connect))
        for group in (SHOP, BILLING):
            checkpoint = Checkpoint(group, *THERE, SourceOffset(5), TargetOffset(5))
            self.reader._last[group] = {THERE: (checkpoint, 0)}
        monkeypatch.setattr(self.reader, "_read_checkpoints", lambda: None)
        monkeypatch.setattr(self.reader._moves, "read", dict)
        monkeypatch.setattr(self.reader._returns, "read", dict)
        monkeypatch.setattr(self.reader, "_learn", lambda _: None)
        monkeypatch.setattr(self.reader, "_logs", lambda *_: ({HERE: LogOffsets(0, 5)}, {THERE: LogOffsets(0, 5)}))
        monkeypatch.setattr(self.reader._places, "copied_up_to", lambda *_: SourceOffset(5))
        found = TranslatedGroupOffset(THERE, TargetOffset(5), exact=True)
        monkeypatch.setattr(self.reader._translator, "translate_offset", lambda *_: found)
        monkeypatch.setattr(self.reader._translator, "past_copies", lambda *_: None)
        monkeypatch.setattr(self.reader._translator, "find_hidden", lambda: self.hidden)

    def read(self, *wanted: str) -> GroupsSnapshot:
        return self.reader.read(wanted)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_a_group_that_nobody_lists_is_shown_by_its_checkpoints(scene: Scene) -> None:
    scene.source.code = Code.COORDINATOR_NOT_AVAILABLE
    seen = scene.read()
    billing, shop = seen.groups
    assert (billing.group, shop.group) == (BILLING, SHOP)
    assert [reason.obstacle for reason in shop.reasons] == [Obstacle.SOURCE_SILENT]
    assert shop.partitions[0].facts.checkpoint_source == 5
    assert billing.safe
    assert seen.source_trouble is None
    assert (
        "TW-GROUP-10: partitions of __consumer_offsets that lack a leader: 1; the source leaves out their groups, and "
        "groups that lack a checkpoint are left out"
    ) in lines(seen)


def test_a_group_at_the_commit_of_a_switchover_has_moved(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    moves = {(SHOP, THERE): GroupMove(SourceOffset(5), TargetOffset(5))}
    monkeypatch.setattr(scene.reader._moves, "read", lambda: moves)
    assert [group.moved for group in scene.read().groups] == [False, False], "members on the source"
    monkeypatch.setattr(ClusterGroups, "active", lambda *_: False)
    assert [(group.group, group.moved, group.done) for group in scene.read().groups] == [
        (BILLING, False, True),
        (SHOP, True, True),
    ]


def test_a_group_whose_topic_the_login_may_not_describe_is_shown_with_the_missing_right(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator leaves such offsets out of its answer."""
    right = "cluster a: User:mirror lacks DESCRIBE on topic t, needed for reading the offsets of groups"
    scene.hidden = HiddenOffsets((TopicName("t"),), right)
    scene.source.where = TopicPartition(TopicName("other"), 0)
    monkeypatch.setattr(scene.reader, "_topics", DefaultTopicFilter(exclude=("other",)))
    monkeypatch.setattr(scene.reader, "_not_mirrored", lambda topic: "left out" if topic == "other" else None)
    scene.reader._last.pop(BILLING)
    seen = scene.read()
    (shop,) = seen.groups
    (part,) = [part for part in shop.partitions if part.facts.source == HERE]
    assert (shop.group, shop.done, part.facts.remote) == (SHOP, False, THERE)
    assert part.verdict.reasons == (Reason(Obstacle.HIDDEN, f"the source hides its offset in topic t: {right}"),)
    note = "TW-RIGHT-02: the source hides the offsets of groups in topic t, and groups that lack a checkpoint there are"
    assert f"{note} left out: {right}" in lines(seen)
    assert (flow_json(seen)["hidden_topics"], flow_json(seen)["missing_right"]) == (["t"], right)
    scene.reader._last.clear()
    scene.source.where = HERE
    others = scene.read()
    assert all(group.done for group in others.groups)
    assert missing(others).startswith("TW-RIGHT-02: a->b: the source hides the offsets of groups in topic t")
    scene.source.commits = False
    with pytest.raises(RefusedError, match=r"group nowhere lacks committed offsets; .* lacks DESCRIBE on topic t"):
        scene.read("nowhere")


COPY, ORIGINAL = TopicPartition(TopicName("b.t"), 0), HERE
"""Of a topic that producers wrote to on the target, before they came back."""


@pytest.fixture
def returned(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """After a switch there and back, when groups also read copies of what producers wrote on the target."""
    monkeypatch.setattr(group_offsets, "common_broker", lambda *_: None)
    scene.source.copies = {COPY: CommittedOffset(9)}
    logs = {HERE: LogOffsets(0, 5), COPY: LogOffsets(0, 20)}, {THERE: LogOffsets(0, 5), ORIGINAL: LogOffsets(0, 500)}
    monkeypatch.setattr(scene.reader, "_logs", lambda *_: logs)
    return scene


@pytest.mark.parametrize("there", [9, 12])
@pytest.mark.parametrize("runs_back", [True, False])
def test_positions_in_copies_that_the_flow_leaves_out_are_compared_with_the_originals(
    returned: Scene, monkeypatch: pytest.MonkeyPatch, there: int, runs_back: bool
) -> None:
    leave_out(returned, monkeypatch, translated=9, runs_back=runs_back)
    returned.target.copies = {ORIGINAL: CommittedOffset(there)}
    seen = returned.read()
    assert [(group.group, group.safe) for group in seen.groups] == [(BILLING, True), (SHOP, True)]
    assert [part.facts.source for part in seen.groups[0].partitions] == [COPY, HERE]
    assert group_findings("a->b", "b", seen) == []


def test_a_position_in_a_copy_after_the_group_s_own_in_the_original_would_repeat_the_records_between(
    returned: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out(returned, monkeypatch, translated=9)
    returned.target.copies = {ORIGINAL: CommittedOffset(4)}
    seen = returned.read()
    billing, _ = seen.groups
    assert (billing.safe, billing.done, billing.partitions[0].verdict.repeats) == (False, False, 5)
    assert [(reason.obstacle, reason.heals) for reason in billing.reasons] == [(Obstacle.LEFT_TO_SWITCHOVER, False)]
    assert "an operator has to act for billing, shop" in lines(seen)[-1]
    finding, _ = group_findings("a->b", "b", seen)
    assert finding.text == "group billing would repeat 5 records on b"
    assert "twinlog switchover" in str(finding.way_out)
    monkeypatch.setattr(returned.reader._places, "_runs_back", True)
    returned.target.copies = {}
    assert [reason.obstacle for reason in returned.read().groups[0].reasons] == [Obstacle.LEFT_TO_SWITCHOVER]


def test_a_moved_group_has_moved_with_its_positions_in_copies(returned: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out(returned, monkeypatch, translated=9)
    returned.target.copies = {ORIGINAL: CommittedOffset(12)}
    moves = {(group, THERE): GroupMove(SourceOffset(5), TargetOffset(5)) for group in (SHOP, BILLING)}
    monkeypatch.setattr(returned.reader._moves, "read", lambda: moves)
    monkeypatch.setattr(ClusterGroups, "active", lambda *_: False)
    assert [group.moved for group in returned.read().groups] == [True, True]
    returned.target.copies = {ORIGINAL: CommittedOffset(4)}
    assert [(group.moved, group.done) for group in returned.read().groups] == [(False, False)] * 2


def test_positions_in_copies_of_unknown_origin_do_not_count(returned: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out(returned, monkeypatch)
    seen = returned.read()
    assert [(group.group, group.safe) for group in seen.groups] == [(BILLING, True), (SHOP, True)]
    assert [part.facts.source for group in seen.groups for part in group.partitions] == [HERE, HERE]
    assert group_findings("a->b", "b", seen) == []


def test_a_group_of_such_positions_alone_is_left_out(returned: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    returned.source.where = COPY
    returned.source.copies = {}
    leave_out(returned, monkeypatch)
    assert returned.read().groups == ()
    with pytest.raises(GroupGoneError, match="group shop has committed offsets only in copies from b"):
        returned.read(SHOP)


def test_positions_in_copies_that_the_flow_takes_along_count(returned: Scene) -> None:
    assert [part.facts.source for part in returned.read().groups[0].partitions] == [COPY, HERE]


def leave_out(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, translated: int | None = None, runs_back: bool = False
) -> None:
    """Have the flow mirror topic `t` only; `translated` is the place in the original of copies from the target."""
    monkeypatch.setattr(scene.reader, "_topics", DefaultTopicFilter(("t",)))
    monkeypatch.setattr(scene.reader._translator, "_filter", DefaultTopicFilter(("t",)))
    monkeypatch.setattr(scene.reader._places, "_runs_back", runs_back)
    back = None if translated is None else TranslatedGroupOffset(ORIGINAL, TargetOffset(translated), exact=True)
    there = TranslatedGroupOffset(THERE, TargetOffset(5), exact=True)
    monkeypatch.setattr(scene.reader._translator, "translate_offset", lambda where, _: back if where == COPY else there)
    prove = scene.reader._places._proofs
    monkeypatch.setattr(prove, "prove", lambda places, *_: places)


@pytest.mark.parametrize(
    "code", [Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS]
)
def test_a_coordinator_that_moves_is_waited_for(scene: Scene, code: Code) -> None:
    scene.source.code, scene.source.answers_at = code, scene.source.clock.monotonic() + 1
    seen = scene.read()
    assert [group.group for group in seen.groups] == [BILLING, SHOP]
    assert [group.source_state for group in seen.groups] == ["Stable", "Stable"]
    assert (seen.unlisted, [part.facts.committed for group in seen.groups for part in group.partitions]) == (0, [5, 5])


def test_a_group_in_a_transaction_whose_coordinator_moves_may_not_move(scene: Scene) -> None:
    scene.source.in_transaction = True
    _, shop = scene.read().groups
    assert [reason.obstacle for reason in shop.reasons] == [Obstacle.IN_TRANSACTION]
    scene.source.code, scene.source.answers_at = Code.NOT_COORDINATOR, scene.source.clock.monotonic() + 1
    _, shop = scene.read().groups
    assert [reason.obstacle for reason in shop.reasons] == [Obstacle.IN_TRANSACTION]


def test_a_coordinator_of_the_target_without_a_leader_is_no_group_without_offsets(scene: Scene) -> None:
    scene.target.code = Code.COORDINATOR_NOT_AVAILABLE
    _, shop = scene.read().groups
    assert [reason.obstacle for reason in shop.reasons] == [Obstacle.TARGET_SILENT]


def test_a_target_that_never_had_a_group_is_no_silent_one(scene: Scene) -> None:
    scene.target.code, scene.target.kept = Code.COORDINATOR_NOT_AVAILABLE, False
    _, shop = scene.read().groups
    assert [reason.obstacle for reason in shop.reasons] == [Obstacle.NOT_COMMITTED]


def test_a_named_group_is_not_said_to_have_committed_nothing(scene: Scene) -> None:
    scene.source.code = Code.COORDINATOR_NOT_AVAILABLE
    scene.reader._last.clear()
    with pytest.raises(ClusterError, match=r"offsets of group shop are unreadable: .*\(error code 15\)"):
        scene.read(SHOP)


def test_nobody_waits_for_no_group_where_some_cannot_be_listed() -> None:
    assert missing(GroupsSnapshot("a->b", 0, unlisted=2)) == (
        "a->b: partitions of __consumer_offsets that lack a leader: 2; the source leaves out their groups"
    )


ONE = GroupMembers("connect", "Stable", (GroupMember("m", "c", "h", b"", b""),))


def record(key: str, value: bytes | None, at_ms: int = 7) -> tuple[bytes, KeptRecord]:
    """With lengths below 64, as a byte tells them."""
    size = bytes([1]) if value is None else bytes([len(value) * 2 & 127 | 128, len(value) * 2 >> 7]) + value
    return key.encode(), KeptRecord(0, at_ms, bytes([len(key) * 2]) + key.encode() + size + b"\0")


def status(state: str, trace: str = "null") -> bytes:
    return f'{{"state":"{state}","trace":{trace},"worker_id":"w:1","generation":3}}'.encode()


class Topic:
    """Stands in for the status topic, which may be hidden."""

    records: ClassVar[list[tuple[bytes, KeptRecord]]] = []
    refuses = False

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def read_last(self, last: LastRecords) -> None:
        if self.refuses:
            raise RefusedError("READ on the topic is missing")
        last.update(self.records)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> type[Topic]:
    class Own(Topic):
        records: ClassVar = [
            record("status-connector-a-b", status("RUNNING")),
            record("status-task-a-b-1", status("FAILED", '"java.lang.Oops: x\\n\\tat y"'), 9),
            record("status-task-a-b-0", status("RUNNING")),
            record("status-task-a-b-2", None),
            record("status-connector-gone", None),
            record("status-connector-odd", b"no JSON"),
            record("status-topic-t:connector-a-b", b"{}"),
        ]

    monkeypatch.setattr(readers, "TopicReader", Own)
    return Own


def seen(name: str, group: GroupMembers | RefusedError = ONE) -> ConnectorSnapshot | None:
    def call(*_: Any) -> GroupMembers:
        if isinstance(group, RefusedError):
            raise group
        return group

    reader = ConnectorsReader(SimpleNamespace(client=None, call=call), "w", "w-status")  # type: ignore[arg-type]
    reader.read()
    return reader.connector(name)


def test_a_connector_has_its_last_status_and_those_of_its_tasks(topic: type[Topic]) -> None:
    found = seen("a-b")
    assert found is not None
    assert (found.members, found.reported, found.at_ms) == (1, ReportedState("RUNNING", "w:1", 7), 9)
    assert [one.state for one in found.tasks] == ["RUNNING", "FAILED"]
    assert found.failure == "1 of 2 tasks: java.lang.Oops: x"


@pytest.mark.parametrize("name", ["gone", "odd", "never"])
def test_of_others_nothing_was_reported(topic: type[Topic], name: str) -> None:
    found = seen(name)
    assert found is not None
    assert (found.reported, found.tasks) == (None, ())


def test_who_may_not_ask_for_the_group_does_not_take_it_for_empty(topic: type[Topic]) -> None:
    found = seen("a-b", RefusedError("DESCRIBE on the group is missing"))
    assert found is not None
    assert found.members is None


def test_who_may_not_read_the_topic_does_not_take_a_connector_for_unknown(topic: type[Topic]) -> None:
    topic.refuses = True
    assert seen("a-b") is None
