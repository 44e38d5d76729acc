"""Doubts about groups of a running flow end with a move, an exact place or a return, and last while a group skips."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.errors import ClusterError
from twinlog.mirror.groups import deleted_positions, unsafe_groups
from twinlog.mirror.groups.checkpoint_writer import CheckpointWriter
from twinlog.mirror.groups.deleted_positions import STALE_S
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator, TranslatedGroupOffset
from twinlog.mirror.groups.group_places import GroupPlace
from twinlog.mirror.groups.move_facts import GroupMove
from twinlog.mirror.groups.unsafe_groups import SAME_S, UnsafeGroups
from twinlog.model.groups import CommittedOffset, GroupListing, GroupOffsets
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition

SHOP = GroupId("shop")
HERE, THERE = TopicPartition(TopicName("t"), 0), TopicPartition(TopicName("east.t"), 0)
COPY, ORIGINAL = TopicPartition(TopicName("west.own"), 0), TopicPartition(TopicName("own"), 0)
FOREIGN = TopicPartition(TopicName("private"), 0)
SETTINGS = flow("east", "west", "default")


class Scene:
    """The group shop has committed 170 on the source; its place on the target is 165, or later."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = VirtualClock(0.0)
        self.asked: list[str] = []
        self.exact = False
        self.untranslated = False
        """Whether the group's own offset lacks a translation."""
        self.past_copies: TargetOffset | None = None
        self.provers = 0
        self.present: dict[GroupId, GroupOffsets] = {SHOP: {THERE: CommittedOffset(165)}}
        self.proven: GroupPlace | None = None
        self.moves: dict[tuple[GroupId, TopicPartition], GroupMove] = {}
        self.returns: dict[tuple[GroupId, TopicPartition], GroupMove] = {}
        self.silent = self.target_silent = False
        self.start = self.source_start = 0
        self.end, self.source_end = 600, 500
        self.logs: set[TopicPartition] = set()
        """The partitions whose first offset was asked for."""
        self.listed: dict[GroupId, GroupListing] = {}
        self.read_back: list[TopicName] = []
        """The topics whose positions of the way back were read."""
        self.writer = SimpleNamespace(
            inexact={SHOP: {HERE: SourceOffset(170)}},
            active_on_source=frozenset(),
            committed=lambda group: {HERE: CommittedOffset(170)},
            followed=(SHOP,),
            positions=lambda: {SHOP: {THERE: CommittedOffset(165)}},
            left_to_switchover=dict,
            stored=SimpleNamespace(last=lambda group: {}),
        )
        self.syncing = SimpleNamespace(active=frozenset(), ahead={})
        translator = SimpleNamespace(
            reverse=SETTINGS,
            remote=lambda where: ORIGINAL if where == COPY else THERE,
            came_from_target=lambda topic: topic == COPY.topic,
            left_to_switchover=lambda topic: topic == COPY.topic,
            refresh_back=self.read_back.extend,
            past_copies=lambda where, offset: self.past_copies,
            copied_up_to=lambda: {HERE: SourceOffset(500)},
            translate_offset=self._translate,
        )
        cluster: Any = SimpleNamespace(
            client=None,
            alias="west",
            call=lambda step, *args: step(*args),
            clock=self.clock,
            offsets=self._starts,
        )
        monkeypatch.setattr(unsafe_groups, "GroupPlaceProver", self._new_prover)
        monkeypatch.setattr(unsafe_groups, "GroupMovesReader", lambda *args, **kw: SimpleNamespace(read=self._read))
        returns = SimpleNamespace(read=lambda: self.returns, mark_ended=lambda moves: moves)
        monkeypatch.setattr(unsafe_groups, "GroupReturnsReader", lambda *args, **kw: returns)
        admin = SimpleNamespace(offsets=self._offsets, listed=lambda: self.listed)
        monkeypatch.setattr(unsafe_groups, "GroupAdmin", lambda client: admin)
        monkeypatch.setattr(deleted_positions, "GroupAdmin", lambda client: admin)
        self.unsafe = UnsafeGroups(
            SETTINGS,
            cluster,
            cluster,
            cast(GroupOffsetTranslator, translator),
            cast(CheckpointWriter, self.writer),
            cast(Any, self.syncing),
        )

    def _read(self) -> Mapping[tuple[GroupId, TopicPartition], GroupMove]:
        self.asked.append("journal")
        if self.silent:
            raise ClusterError("no answer")
        return self.moves

    def _translate(self, where: TopicPartition, offset: SourceOffset) -> TranslatedGroupOffset | None:
        if where == COPY:
            there = TargetOffset(90 if offset == 95 else offset - 5)
            return TranslatedGroupOffset(ORIGINAL, there, True) if COPY.topic in self.read_back else None
        if self.untranslated and offset == self.writer.committed(SHOP)[HERE].offset:
            return None
        return TranslatedGroupOffset(THERE, TargetOffset(165 if offset == 170 else offset - 5), self.exact)

    def _starts(self, partitions: Collection[TopicPartition], latest: bool) -> dict[TopicPartition, int]:
        if self.target_silent:
            raise ClusterError("no answer")
        if not {HERE, COPY}.isdisjoint(partitions):
            return dict.fromkeys(partitions, self.source_end if latest else self.source_start)
        self.logs.update(partitions)
        return dict.fromkeys(partitions, self.end if latest else self.start)

    def read_in_copy(self) -> None:
        """Let the group read only in a copy of a topic of the target, and stand in the original at 60."""
        self.writer.inexact, self.writer.committed, self.writer.positions = {}, lambda group: {}, dict
        self.writer.left_to_switchover = lambda: {SHOP: {COPY: CommittedOffset(95)}}
        self.present[SHOP] = {ORIGINAL: CommittedOffset(60), FOREIGN: CommittedOffset(1)}

    def _offsets(self, groups: Collection[GroupId]) -> tuple[Mapping[GroupId, GroupOffsets], Mapping[GroupId, int]]:
        return {group: self.present[group] for group in groups if group in self.present}, {}

    def _new_prover(self, *args: object) -> SimpleNamespace:
        self.provers += 1
        return SimpleNamespace(prove=self._prove)

    def commit(self, offset: int) -> None:
        """Let the group commit on the source, still without an exact translation."""
        self.writer.inexact = {SHOP: {HERE: SourceOffset(offset)}}
        self.writer.committed = lambda group: {HERE: CommittedOffset(offset)}

    def _prove(self, places: Mapping[Any, GroupPlace], *rest: object) -> dict[Any, GroupPlace]:
        self.asked.append("offset syncs")
        return {} if self.proven is None else dict.fromkeys(places, self.proven)

    def look(self) -> tuple[set[GroupId], set[GroupId]]:
        """The inexact groups, and those ahead, after a look at a later moment."""
        self.clock.sleep(SAME_S + 1)
        self.unsafe.resolve_doubts()
        return set(self.unsafe.inexact), set(self.unsafe.ahead)

    def before_start(self) -> set[GroupId]:
        found = self.unsafe.before_start
        assert found is not None
        return set(found)

    def stand_at(self, offset: int) -> None:
        """Let the group stand further on the target than its place there."""
        self.present[SHOP] = {THERE: CommittedOffset(offset)}
        self.syncing.ahead = {SHOP: frozenset({THERE})}


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def move(source: int, target: int, *, released: bool = False) -> GroupMove:
    return GroupMove(SourceOffset(source), TargetOffset(target), released)


def test_an_inexact_group_that_a_switchover_moved_is_no_doubt(scene: Scene) -> None:
    assert scene.look() == ({SHOP}, set())
    scene.moves[SHOP, THERE] = move(170, 165)
    assert scene.look() == (set(), set())
    scene.writer.inexact = {SHOP: {HERE: SourceOffset(180)}}
    scene.moves[SHOP, THERE] = move(170, 165, released=True)
    assert scene.look() == ({SHOP}, set()), "it reads on on the source"


def test_a_moved_group_that_reads_on_on_the_target_skips_nothing_and_a_group_set_there_by_hand_does(
    scene: Scene,
) -> None:
    scene.writer.inexact, scene.exact = {}, True
    scene.stand_at(300)
    assert scene.look() == (set(), {SHOP})
    scene.moves[SHOP, THERE] = move(170, 165)
    assert scene.look() == (set(), set())
    scene.moves[SHOP, THERE] = move(170, 310)
    assert scene.look() == (set(), {SHOP}), "it was set back on the target since"
    scene.moves.clear()
    scene.returns[SHOP, THERE] = move(160, 300)
    assert scene.look() == (set(), set()), "it had read up to 300 before it came back"


def test_a_place_that_offset_syncs_prove_is_exact(scene: Scene) -> None:
    scene.proven = GroupPlace(THERE, 165, exact=True, past=165)
    assert scene.look() == (set(), set())
    scene.proven = GroupPlace(THERE, 165, exact=False, past=169)
    scene.commit(171)
    assert scene.look() == ({SHOP}, set())
    scene.proven = GroupPlace(THERE, 160, exact=True, past=160)
    scene.commit(172)
    scene.stand_at(165)
    assert scene.look() == (set(), {SHOP}), "it would skip five records"
    scene.commit(501)
    scene.look()
    assert scene.asked.count("offset syncs") == 3, "what is still to copy has no place to prove"


def test_a_group_after_a_proven_place_is_ahead_and_has_an_exact_translation(scene: Scene) -> None:
    scene.stand_at(300)
    assert scene.look() == ({SHOP}, {SHOP})
    scene.proven = GroupPlace(THERE, 165, exact=True, past=165)
    scene.commit(171)
    assert scene.look() == (set(), {SHOP})
    scene.syncing.ahead = {}
    assert scene.look() == (set(), {SHOP}), "the commits on the target saw a translation that was proven wrong"
    scene.proven = None
    scene.commit(172)
    assert scene.look() == ({SHOP}, set())


def test_a_group_before_the_first_record_of_the_target_is_unsafe_until_it_moves(scene: Scene) -> None:
    scene.writer.inexact = {}
    scene.start = 165
    scene.look()
    assert scene.before_start() == set()
    scene.start = 166
    scene.look()
    assert scene.before_start() == {SHOP}
    scene.present[SHOP] = {THERE: CommittedOffset(166)}
    scene.look()
    assert scene.before_start() == set(), "it continues at the first record"
    scene.present[SHOP] = {THERE: CommittedOffset(165)}
    scene.look()
    assert scene.before_start() == {SHOP}
    scene.listed = {SHOP: GroupListing(SHOP, "consumer", "Stable")}
    scene.look()
    assert scene.before_start() == set(), "it has members on the target alone"


@pytest.mark.parametrize(
    ("known", "moved"),
    [
        (move(170, 165), True),
        (move(170, 165, released=True), True),
        (move(169, 165), False),
        (move(170, 166), False),
    ],
)
def test_a_group_before_the_first_record_has_moved_by_the_judgement_of_groups(
    scene: Scene, known: GroupMove, moved: bool
) -> None:
    scene.writer.inexact = {}
    scene.start = 166
    scene.moves[SHOP, THERE] = known
    scene.look()
    assert scene.before_start() == (set() if moved else {SHOP})


def test_a_group_whose_position_the_source_has_deleted_too_counts_while_the_target_lacks_records(scene: Scene) -> None:
    scene.writer.inexact = {}
    scene.start, scene.source_start = 300, 304
    scene.look()
    assert scene.before_start() == {SHOP}
    scene.source_start = 305
    scene.look()
    assert scene.before_start() == set()
    scene.silent = True
    scene.look()
    assert scene.before_start() == set(), "a silent source keeps its first record, or deletes more"
    scene.silent, scene.start = False, 301
    scene.look()
    assert scene.before_start() == {SHOP}
    scene.source_start, scene.start = 500, 600
    scene.look()
    assert scene.before_start() == set(), "the source has no records"


def test_an_untranslated_group_counts_until_it_begins_alike_on_both_clusters(scene: Scene) -> None:
    """By `groups` its offset is older than any that can be translated."""
    scene.untranslated, scene.present = True, {}
    scene.past_copies = TargetOffset(100)
    scene.start, scene.source_start = 100, 170
    assert scene.look() == ({SHOP}, set()), "the source has the position"
    scene.source_start = 171
    assert scene.look() == (set(), set())
    scene.start = 167
    assert scene.look() == ({SHOP}, set()), "the target lacks a record of the source"
    scene.start, scene.past_copies = 100, TargetOffset(101)
    scene.commit(169)
    assert scene.look() == ({SHOP}, set()), "it would read a record that it may have read"
    scene.past_copies = TargetOffset(100)
    scene.commit(168)
    assert scene.look() == (set(), set())
    scene.present = {SHOP: {THERE: CommittedOffset(120)}}
    assert scene.look() == ({SHOP}, set()), "it continues at an offset of its own"
    scene.moves[SHOP, THERE] = move(170, 120)
    assert scene.look() == (set(), set())


def test_a_group_of_an_empty_topic_is_no_doubt_for_long(scene: Scene) -> None:
    """Nothing was ever copied of it, so that its map is missing."""
    scene.untranslated, scene.present = True, {}
    scene.commit(0)
    scene.source_end = scene.end = 0
    assert scene.look() == (set(), set())
    scene.source_end = 1
    assert scene.look() == ({SHOP}, set())


def test_a_deleted_position_in_a_copy_from_the_target_counts_while_the_original_lacks_records(scene: Scene) -> None:
    scene.read_in_copy()
    scene.start, scene.source_start = 90, 95
    scene.look()
    assert scene.before_start() == {SHOP}, "the source has the position"
    scene.start, scene.source_start = 200, 205
    scene.look()
    assert scene.before_start() == set()
    scene.start = 201
    scene.look()
    assert scene.before_start() == {SHOP}


def test_a_group_that_stands_before_its_translation_is_before_the_first_record_too(scene: Scene) -> None:
    scene.writer.inexact = {}
    scene.present[SHOP] = {THERE: CommittedOffset(100)}
    scene.start = 120
    scene.look()
    assert scene.before_start() == {SHOP}


def test_a_group_in_a_copy_from_the_target_counts_by_its_position_in_the_original(scene: Scene) -> None:
    scene.read_in_copy()
    scene.start = 60
    scene.look()
    assert scene.before_start() == set()
    assert scene.read_back == [], "the positions of the way back are read only for a deleted position"
    assert scene.logs == {ORIGINAL}, "logs without a group of the flow are left alone"
    scene.start = 61
    scene.look()
    assert scene.before_start() == {SHOP}
    assert not scene.unsafe.inexact | scene.unsafe.ahead
    scene.present[SHOP] = {}
    scene.look()
    assert scene.before_start() == set(), "only a switchover commits its position"


def test_deleted_positions_are_unknown_before_the_first_look_and_without_an_answer_for_long(scene: Scene) -> None:
    scene.writer.inexact, scene.writer.followed = {}, None
    scene.start = 166
    scene.look()
    assert scene.unsafe.before_start is None
    scene.writer.followed, scene.target_silent = (SHOP,), True
    scene.look()
    assert scene.unsafe.before_start is None
    scene.target_silent = False
    scene.clock.sleep(1)
    scene.unsafe.resolve_doubts()
    assert scene.before_start() == {SHOP}, "the look is repeated at the next turn"
    scene.target_silent = True
    scene.look()
    assert scene.before_start() == {SHOP}
    scene.clock.sleep(STALE_S)
    assert scene.unsafe.before_start is None


def test_offset_syncs_are_read_once_for_an_offset_and_forgotten_while_unused(scene: Scene) -> None:
    for _ in range(100):
        assert scene.look() == ({SHOP}, set())
    assert scene.asked.count("offset syncs") == 1
    assert scene.unsafe._prover is None
    for offset in range(171, 200):
        scene.commit(offset)
        scene.look()
    assert scene.asked.count("offset syncs") == 30
    assert scene.provers == 3, "the history starts over after ten minutes"


def test_a_doubt_counts_from_its_first_look_on_and_ends_at_once(scene: Scene) -> None:
    assert not scene.unsafe.inexact
    assert scene.look() == ({SHOP}, set())
    scene.commit(171)
    assert scene.unsafe.inexact == {SHOP}
    scene.writer.inexact = {}
    assert not scene.unsafe.inexact


def test_members_on_the_target_alone_need_no_look(scene: Scene) -> None:
    scene.syncing.active = frozenset({SHOP})
    assert scene.look() == (set(), set())
    assert scene.asked == []
    scene.writer.active_on_source = frozenset({SHOP})
    assert scene.look() == ({SHOP}, set())


def test_a_flow_without_doubts_reads_nothing_and_the_same_doubts_rest(scene: Scene) -> None:
    scene.look()
    for _ in range(3):
        scene.unsafe.resolve_doubts()
    assert scene.asked == ["journal", "offset syncs"]
    scene.writer.inexact = {SHOP: {HERE: SourceOffset(180)}}
    scene.unsafe.resolve_doubts()
    assert scene.asked.count("journal") == 2, "the group has committed again"
    scene.writer.inexact = {}
    scene.look()
    assert scene.asked.count("journal") == 2


def test_a_silent_cluster_leaves_doubts_as_they_are(scene: Scene) -> None:
    scene.moves[SHOP, THERE] = move(170, 165)
    scene.look()
    scene.silent = True
    assert scene.look() == (set(), set())
    scene.writer.inexact = {SHOP: {HERE: SourceOffset(170), TopicPartition(HERE.topic, 1): SourceOffset(3)}}
    assert scene.look() == ({SHOP}, set())
