"""How soon a group of the source has checkpoints and is moved along on the target, and what is asked for that."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import record_body
from twinlog.kafka.record.last_records import KeptRecord, LastRecords
from twinlog.mirror.groups import followed_groups, group_sync
from twinlog.mirror.groups.checkpoint_writer import CheckpointWriter
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator, TranslatedGroupOffset
from twinlog.mirror.groups.group_sync import GroupSync
from twinlog.mirror.groups.stored_checkpoints import is_due
from twinlog.mirror.records import Checkpoint, decode_checkpoint
from twinlog.model.groups import CommittedOffset, GroupListing, GroupOffsets
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

HERE, THERE = TopicPartition(TopicName("t"), 0), TopicPartition(TopicName("a.t"), 0)
OTHERS = TopicPartition(TopicName("c.t"), 0)
SHOP, BANK = GroupId("shop"), GroupId("bank")
EVERY_S = 60.0
MINUTES = replace(
    flow("a", "b", "default"),
    refresh_groups_interval_s=EVERY_S,
    emit_checkpoints_interval_s=EVERY_S,
    sync_group_offsets_interval_s=EVERY_S,
)


class Groups:
    """The groups of a cluster, in place of GroupAdmin: what each has committed, and what it was asked."""

    def __init__(self, _: object = None) -> None:
        self.committed: dict[GroupId, int | None] = {}
        self.members: set[GroupId] = set()
        self.wrong: dict[GroupId, int] = {}
        self.refused: dict[GroupId, int] = {}
        self.asked: list[str] = []
        self.others: dict[GroupId, GroupOffsets] = {}
        """Offsets in the partitions of other flows."""
        self.protocol = "classic"
        self.taken: Mapping[GroupId, GroupOffsets] = {}
        """The last commit."""
        self._answers: dict[GroupId, GroupOffsets] = {}

    def listed(self) -> dict[GroupId, GroupListing]:
        self.asked.append("list")
        return {
            one: GroupListing(
                one, self.protocol and "consumer", "Stable" if one in self.members else "Empty", "classic"
            )
            for one in self.committed
        }

    def offsets(self, wanted: Iterable[GroupId]) -> tuple[dict[GroupId, GroupOffsets], dict[GroupId, int]]:
        self.asked.append(f"offsets of {','.join(wanted)}")
        wrong = {one: code for one, code in self.wrong.items() if one in wanted}
        return {one: self._offsets(one) for one in wanted if one not in wrong}, wrong

    some_offsets = offsets

    def _offsets(self, group: GroupId) -> GroupOffsets:
        offset = self.committed.get(group)
        now = {**({} if offset is None else {HERE: CommittedOffset(offset)}), **self.others.get(group, {})}
        return self._answers.setdefault(group, now) if self._answers.get(group) == now else self._new(group, now)

    def _new(self, group: GroupId, now: GroupOffsets) -> GroupOffsets:
        self._answers[group] = now
        return now

    def commit(self, commits: Mapping[GroupId, GroupOffsets]) -> dict[GroupId, dict[TopicPartition, int]]:
        self.asked.append(f"commit {','.join(commits)}")
        self.taken = commits
        return {one: dict.fromkeys(where, self.refused[one]) for one, where in commits.items() if one in self.refused}


class Copied:
    """In place of GroupOffsetTranslator: records up to `end` are copied, or none while it is None."""

    end: int | None = 1000

    def __init__(self) -> None:
        self.reads = 0

    def accepts(self, topic: TopicName) -> bool:
        return True

    def refresh(self, topics: Iterable[TopicName]) -> None:
        self.reads += 1

    def find_hidden(self) -> None:
        """The source hides no topic."""

    def remote(self, partition: TopicPartition) -> TopicPartition:
        return THERE

    def translate_offset(self, partition: TopicPartition, offset: SourceOffset) -> TranslatedGroupOffset | None:
        if self.end is None:
            return None
        return TranslatedGroupOffset(THERE, TargetOffset(min(offset, self.end)), offset <= self.end)


class Scene:
    """A writer of checkpoints in virtual time; turns are taken as its job takes them."""

    def __init__(self, settings: FlowSettings = MINUTES) -> None:
        self.clock = VirtualClock(0.0)
        self.groups = Groups()
        self.copied = Copied()
        assert settings.emit_checkpoints_interval_s is not None
        self._every_s = settings.emit_checkpoints_interval_s
        self.moved: list[float] = []
        self.checkpoints: list[tuple[float, str, int]] = []
        cluster = SimpleNamespace(client=None, call=lambda step, *args: step(*args), clock=self.clock, alias="a")
        admin = cast(ClusterAdmin, cluster)
        translator = cast(GroupOffsetTranslator, self.copied)
        self.writer = CheckpointWriter(
            settings, admin, admin, translator, moved=lambda: self.moved.append(self.clock.now)
        )
        self.writer.stored._compacted = SimpleNamespace(  # type: ignore[assignment]
            ensure=lambda look: False, append=self._append
        )
        self.writer.stored._reader = SimpleNamespace(read_last=lambda found: None)  # type: ignore[assignment]
        self.writer._groups._admin = self.groups  # type: ignore[assignment]
        self._next_turn, self._again_at = 0.0, inf

    def _append(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        for key, value in records:
            found = decode_checkpoint(key, value)
            assert found is not None
            self.checkpoints.append((self.clock.now, found.group, found.downstream))

    def go_on(self, until: float, events: Mapping[float, Callable[[], object]] | None = None) -> None:
        """Take all turns before a moment; what happens meanwhile is given by its time."""
        left = dict(events or {})
        while (at := min(self._next_turn, self._again_at, *left)) < until:
            self.clock.now = at
            if at in left:
                left.pop(at)()
                continue
            if at == self._next_turn:
                self._next_turn += self._every_s
                self.writer.write_checkpoints()
            else:
                self.writer.try_again()
            again_s = self.writer.again_s()
            self._again_at = inf if again_s is None else at + again_s

    def commit(self, group: GroupId, offset: int | None) -> Callable[[], None]:
        return lambda: self.groups.committed.update({group: offset})


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(followed_groups, "GroupAdmin", Groups)
    return Scene()


def test_a_group_that_is_found_is_read_and_written_at_once(scene: Scene) -> None:
    scene.go_on(120, {10.0: scene.commit(SHOP, 7)})
    assert scene.checkpoints == [(30.0, "shop", 7)]
    assert scene.moved == [30.0]


def test_a_commit_that_changes_is_written_with_the_next_turn_and_moved_along_then(scene: Scene) -> None:
    scene.go_on(300, {float(at): scene.commit(SHOP, at) for at in (10, 70, 200)})
    assert scene.checkpoints == [(float(at), "shop", offset) for at, offset in ((30, 10), (120, 70), (240, 200))]
    assert scene.moved == [at for at, *_ in scene.checkpoints]


def test_the_first_commit_of_a_group_is_not_waited_for_until_the_next_turn(scene: Scene) -> None:
    scene.go_on(60, {20.0: scene.commit(SHOP, None), 35.0: scene.commit(SHOP, 3)})
    assert scene.checkpoints == [(38.0, "shop", 3)], "found at 30, and looked at after 1, 2, 4, 8 seconds"
    assert scene.groups.asked.count("offsets of shop") == 5


def test_what_is_not_copied_yet_is_looked_for_again_soon_and_asks_no_group_again(scene: Scene) -> None:
    scene.copied.end = None
    scene.commit(SHOP, 7)()
    scene.go_on(60, {2.5: lambda: setattr(scene.copied, "end", 1000)})
    assert scene.checkpoints == [(4.0, "shop", 7)]
    assert scene.groups.asked.count("offsets of shop") == 1


def test_a_group_that_reads_along_is_moved_once_and_not_twice(scene: Scene) -> None:
    scene.copied.end = 5
    scene.commit(SHOP, 7)()
    scene.go_on(60, {0.7: lambda: setattr(scene.copied, "end", 7)})
    assert scene.checkpoints == [(0.0, "shop", 5), (1.0, "shop", 7)]
    assert scene.moved == [1.0]


def test_what_is_not_copied_within_a_moment_holds_no_other_group_up(scene: Scene) -> None:
    scene.copied.end = 5
    scene.commit(SHOP, 7)()
    scene.commit(BANK, 3)()
    scene.go_on(60)
    assert scene.moved == [1.0], "both are moved as far as is copied"


def test_a_coordinator_that_loads_is_asked_again_soon_and_for_its_groups_alone(scene: Scene) -> None:
    scene.commit(SHOP, 7)()
    scene.commit(BANK, 3)()
    scene.groups.wrong[SHOP] = int(Code.COORDINATOR_LOAD_IN_PROGRESS)
    scene.go_on(60, {3.0: scene.groups.wrong.clear})
    assert scene.checkpoints == [(0.0, "bank", 3), (4.0, "shop", 7)]
    assert [one for one in scene.groups.asked if one != "list"] == ["offsets of bank,shop"] + 3 * ["offsets of shop"]


def test_where_nothing_moves_three_requests_a_minute_are_sent(scene: Scene) -> None:
    for number in range(500):
        scene.commit(GroupId(f"g-{number}"), number)()
    scene.go_on(60)
    scene.groups.asked.clear()
    scene.copied.reads = 0
    scene.go_on(3660)
    assert len(scene.groups.asked) == 3 * 60, "each minute one for offsets and two for the names of groups"
    assert scene.copied.reads == 60, "everything is translated anew once in a while: a topic may have been recreated"


def test_a_translation_that_never_comes_is_not_looked_for_again_and_again(scene: Scene) -> None:
    scene.copied.end = 5
    scene.commit(SHOP, 7)()
    scene.go_on(60)
    first = scene.copied.reads
    assert first == 7, "at once, and after 1, 2, 4, 8, 16 and 32 seconds"
    scene.go_on(3660, {60.0 * turn + 30: scene.commit(SHOP, 7 + turn) for turn in range(1, 60)})
    assert scene.copied.reads - first == 60


def test_with_a_turn_each_second_a_translation_that_does_not_come_is_looked_for_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(followed_groups, "GroupAdmin", Groups)
    scene = Scene(replace(MINUTES, emit_checkpoints_interval_s=1.0))
    scene.copied.end = 5
    scene.commit(SHOP, 7)()
    scene.go_on(10)
    assert scene.copied.reads == 10
    scene.go_on(300)
    assert scene.copied.reads < 60, "after a tenth of the wait, and after 30 seconds at the latest"
    scene.go_on(400, {300.5: lambda: setattr(scene.copied, "end", 6), 320.5: scene.commit(SHOP, 6)})
    assert scene.checkpoints[-1] == (321.0, "shop", 6), "a new offset is translated with the next turn"
    scene.copied.end = 6
    scene.go_on(480, {400.5: scene.commit(SHOP, 9), 460.5: lambda: setattr(scene.copied, "end", 9)})
    assert 461.0 <= scene.checkpoints[-1][0] <= 467.0
    scene.commit(SHOP, 12)()
    scene.go_on(600)
    scene.copied.end = 12
    scene.writer.write_last_checkpoints()
    assert scene.checkpoints[-1][1:] == ("shop", 12), "the last turn looks at every group"


def test_groups_that_are_found_later_by_wish_are_not_found_sooner(scene: Scene) -> None:
    scene.writer._groups._settings = replace(MINUTES, refresh_groups_interval_s=None)
    scene.go_on(300, {10.0: scene.commit(SHOP, 7)})
    assert scene.checkpoints == []
    assert scene.groups.asked.count("list") == 1


class Target:
    """The group sync of a flow in virtual time."""

    def __init__(self) -> None:
        self.clock = VirtualClock(0.0)
        self.groups = Groups()
        self.positions: dict[GroupId, GroupOffsets] = {SHOP: {HERE: CommittedOffset(7)}}
        self.ends = dict.fromkeys((HERE, OTHERS), 1000)
        client = SimpleNamespace(
            lacks=lambda *what: f"lacks {what[0]} on {what[1]}",
            refresh=lambda topics: None,
            list_offsets=lambda partitions, at: {one: self.ends[one] for one in partitions},
        )
        admin: Any = SimpleNamespace(client=client, call=lambda step, *args: step(*args), clock=self.clock, alias="b")
        self.earlier: dict[TopicPartition, TargetOffset] = {}
        """The checkpoints of the process before, of every group."""
        self._admin = admin
        self.restart()

    def restart(self) -> None:
        """Another process runs the flow."""
        self.sync = GroupSync(MINUTES, self._admin, lambda: self.positions, lambda _group: self.earlier)
        self.sync._admin = self.groups  # type: ignore[assignment]

    def retries(self, until: float) -> list[float]:
        """When it tries again until a moment, without turns in between."""
        tried = []
        while (again_s := self.sync.again_s()) is not None and self.clock.now + again_s < until:
            self.clock.now += again_s
            self.sync.try_again()
            tried.append(self.clock.now)
        return tried


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    monkeypatch.setattr(group_sync, "GroupAdmin", Groups)
    return Target()


@pytest.mark.parametrize(
    "code", [Code.COORDINATOR_LOAD_IN_PROGRESS, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.GROUP_AUTHORIZATION_FAILED]
)
def test_a_refused_commit_is_tried_again_soon_and_ever_more_seldom(target: Target, code: int) -> None:
    target.groups.refused[SHOP] = int(code)
    target.sync.commit_offsets()
    assert target.retries(200) == [0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 63.5, 123.5, 183.5]
    target.groups.refused.clear()
    assert target.retries(300) == [243.5]
    assert target.sync.again_s() is None
    assert target.sync.commit_offsets() is None


def test_groups_ahead_of_their_translation_are_known_until_they_have_members(target: Target) -> None:
    target.groups.committed[SHOP] = 9
    target.sync.commit_offsets()
    assert (list(target.sync.ahead), list(target.sync.active)) == ([SHOP], [])
    target.groups.members.add(SHOP)
    target.clock.now += EVERY_S
    target.sync.commit_offsets()
    assert (list(target.sync.ahead), list(target.sync.active)) == ([], [SHOP])
    target.groups.members.clear()
    target.positions[SHOP] = {HERE: CommittedOffset(9)}
    target.clock.now += EVERY_S
    target.sync.commit_offsets()
    assert (list(target.sync.ahead), list(target.sync.active)) == ([], [])
    target.groups.committed[SHOP] = 12
    target.clock.now += EVERY_S
    target.sync.commit_offsets()
    assert target.sync.ahead == {SHOP: {HERE}}
    target.positions.clear()
    target.sync.commit_offsets()
    assert not target.sync.ahead, "it is no longer followed"


def test_a_group_in_use_is_looked_at_with_the_next_turn_only(target: Target) -> None:
    target.groups.committed[SHOP] = 3
    target.groups.refused[SHOP] = int(Code.COORDINATOR_LOAD_IN_PROGRESS)
    target.sync.commit_offsets()
    target.groups.members.add(SHOP)
    assert target.retries(60) == [0.5]
    target.groups.members.clear()
    target.groups.refused[SHOP] = int(Code.UNKNOWN_MEMBER_ID)
    target.sync.commit_offsets()
    assert target.sync.again_s() is None, "it got members between the look and the commit"


def test_a_group_that_stays_in_use_is_looked_at_less_often_and_followed_within_ten_seconds(target: Target) -> None:
    target.groups.committed[SHOP] = 3
    target.groups.members.add(SHOP)
    looks = []
    for second in range(300):
        target.clock.now = float(second)
        target.groups.asked.clear()
        target.sync.commit_offsets()
        if target.groups.asked:
            looks.append(second)
    pauses = [later - earlier for earlier, later in itertools.pairwise(looks)]
    assert pauses[:10] == [1] * 10
    assert pauses == sorted(pauses)
    assert pauses[-1] == 10
    target.groups.members.clear()
    target.clock.now = 310.0
    target.groups.asked.clear()
    target.sync.commit_offsets()
    assert f"commit {SHOP}" in target.groups.asked


def test_a_stop_looks_once_more_at_a_group_that_has_just_become_idle(target: Target) -> None:
    target.groups.committed[SHOP] = 3
    target.groups.members.add(SHOP)
    for second in range(100):
        target.clock.now = float(second)
        target.sync.commit_offsets()
    target.groups.members.clear()
    target.groups.asked.clear()
    target.sync.commit_offsets()
    assert target.groups.asked == [], "it rests"
    target.sync.commit_last_offsets()
    assert f"commit {SHOP}" in target.groups.asked


def test_a_stop_tries_a_refused_commit_once_more(target: Target) -> None:
    target.groups.refused[SHOP] = int(Code.GROUP_AUTHORIZATION_FAILED)
    target.sync.commit_offsets()
    target.groups.refused.clear()
    target.groups.asked.clear()
    target.sync.commit_offsets()
    assert target.groups.asked == []
    assert target.sync.commit_last_offsets() is None
    assert f"commit {SHOP}" in target.groups.asked


def test_another_flow_that_commits_for_the_same_group_holds_nothing_up(target: Target) -> None:
    target.groups.protocol = ""
    for turn in range(1, 50):
        target.positions = {SHOP: {HERE: CommittedOffset(7 + turn)}}
        target.groups.asked.clear()
        target.sync.commit_offsets()
        assert f"commit {SHOP}" in target.groups.asked, turn
        # The other flow has its own partitions, and the group never had members on the target.
        target.groups.others[SHOP] = {OTHERS: CommittedOffset(turn)}
        target.groups.committed[SHOP] = 7 + turn
        target.clock.now += 5


def test_a_consumer_that_commits_by_itself_is_left_alone(target: Target) -> None:
    target.groups.protocol = ""
    target.sync.commit_offsets()
    target.groups.committed[SHOP] = 9
    target.positions = {SHOP: {HERE: CommittedOffset(20)}}
    target.groups.asked.clear()
    target.sync.commit_offsets()
    assert f"commit {SHOP}" not in target.groups.asked
    target.clock.now += 2 * group_sync.HANDS_OFF_S
    target.sync.commit_offsets()
    assert f"commit {SHOP}" in target.groups.asked


def looks(target: Target, offset: int, seconds: int) -> list[int]:
    """Look once a second, with a position that grows from `offset` on; when offsets were committed."""
    commits = []
    for second in range(seconds):
        target.positions = {SHOP: {HERE: CommittedOffset(offset + second)}}
        target.groups.asked.clear()
        target.sync.commit_offsets()
        if f"commit {SHOP}" in target.groups.asked:
            commits.append(second)
            target.groups.committed[SHOP] = offset + second
        target.clock.now += 1
    return commits


def test_after_a_restart_the_offsets_of_an_assigned_consumer_are_left_alone_at_once(target: Target) -> None:
    target.groups.protocol = ""
    target.groups.committed[SHOP] = 500
    target.earlier = {HERE: TargetOffset(880)}
    assert looks(target, 900, 5) == []
    for turn in range(20):
        target.groups.committed[SHOP] = 501 + turn
        assert looks(target, 905, 10) == []
    first = looks(target, 950, 100)[0]
    assert 50 <= first <= 72, "the consumer has ended"


@pytest.mark.parametrize("crashed", [False, True])
def test_after_a_restart_a_group_that_was_followed_is_followed_again(target: Target, crashed: bool) -> None:
    target.groups.protocol = ""
    assert looks(target, 7, 3) == [0, 1, 2]
    target.earlier = {HERE: TargetOffset(10 if crashed else 9)}
    target.restart()
    first = looks(target, 20, 100)[0]
    if crashed:
        assert 50 <= first <= 72, "the checkpoint was written, and its offset was not committed"
    else:
        assert first == 0


def test_after_a_restart_a_group_whose_consumers_subscribed_is_followed_at_once(target: Target) -> None:
    target.groups.committed[SHOP] = 500
    assert looks(target, 900, 1) == [0]


def test_a_commit_whose_result_is_unknown_is_no_commit_of_a_consumer(target: Target) -> None:
    target.groups.protocol = ""
    assert looks(target, 7, 1) == [0]
    commit = target.groups.commit

    def unanswered(commits: Mapping[GroupId, GroupOffsets]) -> dict[GroupId, dict[TopicPartition, int]]:
        commit(commits)
        target.groups.committed[SHOP] = 8
        raise ClusterError("no answer")

    target.groups.commit = unanswered  # type: ignore[method-assign]
    target.positions = {SHOP: {HERE: CommittedOffset(8)}}
    with pytest.raises(ClusterError):
        target.sync.commit_offsets()
    target.groups.commit = commit  # type: ignore[method-assign]
    assert looks(target, 9, 2) == [0, 1]


def test_checkpoints_of_the_process_before_are_kept_for_the_first_look(scene: Scene) -> None:
    found = Checkpoint(SHOP, THERE.topic, 0, 5, 4, "")

    def read_last(records: LastRecords) -> None:
        records[found.key] = KeptRecord(0, 0, record_body(found.key, found.value))

    scene.writer.stored._reader = SimpleNamespace(read_last=read_last)  # type: ignore[assignment]
    scene.groups.committed[SHOP] = 7
    scene.go_on(1)
    assert scene.checkpoints == [(0.0, SHOP, 7)]
    assert scene.writer.stored.earlier(SHOP) == {THERE: 4}
    assert scene.writer.stored.earlier(BANK) == {}


def test_an_offset_of_an_earlier_topic_of_the_same_name_is_not_committed(target: Target) -> None:
    target.positions = {SHOP: {HERE: CommittedOffset(700), OTHERS: CommittedOffset(5)}}
    # The topic was deleted, and the offsets of its groups with it; then it was created again.
    target.ends[HERE] = 0
    target.sync.commit_offsets()
    assert target.groups.taken == {SHOP: {OTHERS: CommittedOffset(5)}}
    target.groups.asked.clear()
    for _ in range(20):
        target.clock.sleep(1)
        target.sync.commit_offsets()
    assert target.groups.asked == [], "the next look has time"
    # The source's next record is copied, and has a map of its own.
    target.positions = {SHOP: {HERE: CommittedOffset(0), OTHERS: CommittedOffset(5)}}
    target.sync.commit_offsets()
    assert target.groups.taken == {SHOP: {HERE: CommittedOffset(0)}}


def test_where_no_position_is_new_nothing_is_asked(target: Target) -> None:
    target.sync.commit_offsets()
    target.groups.asked.clear()
    for _ in range(20):
        target.clock.sleep(1)
        target.sync.commit_offsets()
    assert target.groups.asked == []


def checkpoint(upstream: int, downstream: int, metadata: str = "") -> Checkpoint:
    return Checkpoint(GroupId("g"), TopicName("east.t"), 0, upstream, downstream, metadata)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    ("last", "new", "due"),
    [
        pytest.param(None, checkpoint(5, 4), True, id="the first"),
        pytest.param(checkpoint(5, 4), checkpoint(5, 4), False, id="the same"),
        pytest.param(checkpoint(5, 4), checkpoint(9, 4), False, id="further only on the source"),
        pytest.param(checkpoint(5, 4), checkpoint(9, 8), True, id="further on both sides"),
        pytest.param(checkpoint(5, 4), checkpoint(5, 5), True, id="further copied"),
        pytest.param(checkpoint(5, 4), checkpoint(3, 2), True, id="the group went back"),
        pytest.param(checkpoint(5, 4), checkpoint(3, 4), True, id="the group went back within a hole"),
        pytest.param(checkpoint(5, 4), checkpoint(5, 4, "new"), True, id="other metadata"),
        pytest.param(checkpoint(5, 4), checkpoint(6, 4, "new"), False, id="other metadata of another offset"),
    ],
)
def test_checkpoints_go_forward_and_back_only_with_their_group(
    last: Checkpoint | None, new: Checkpoint, due: bool, exact: bool
) -> None:
    assert is_due(new, last, exact=exact) is due


def test_only_an_exact_translation_takes_a_checkpoint_back() -> None:
    assert is_due(checkpoint(9, 2), checkpoint(5, 4), exact=True)
    assert not is_due(checkpoint(9, 2), checkpoint(5, 4), exact=False)
