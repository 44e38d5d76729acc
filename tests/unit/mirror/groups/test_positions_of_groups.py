"""Which checkpoints are due, and what may be committed for a group, by its offset's translation and what was before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import pytest

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.record.records import Record
from twinlog.mirror.groups.checkpoint_writer import LATE_S, LOGGED, AwaitedTranslations, CheckpointWriter
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator, TranslatedGroupOffset
from twinlog.mirror.groups.group_sync import ahead
from twinlog.mirror.records import Checkpoint
from twinlog.model.groups import CommittedOffset
from twinlog.model.types import Alias, GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings

GROUP = GroupId("g")
HERE, THERE = TopicPartition(TopicName("t"), 0), TopicPartition(TopicName("east.t"), 0)


class ScriptedTranslator:
    """Translates as the test asks."""

    def __init__(self) -> None:
        self.translated: TranslatedGroupOffset | None = None

    def accepts(self, topic: TopicName) -> bool:
        return True

    def translate_offset(self, partition: TopicPartition, offset: int) -> TranslatedGroupOffset | None:
        return self.translated

    def remote(self, partition: TopicPartition) -> TopicPartition:
        return THERE

    def refresh(self, topics: Iterable[TopicName]) -> None:
        """Nothing comes anew."""


@pytest.fixture
def translator() -> ScriptedTranslator:
    return ScriptedTranslator()


@pytest.fixture
def writer(translator: ScriptedTranslator) -> Iterator[CheckpointWriter]:
    nobody = ClientSettings(("127.0.0.1:1",))
    settings = FlowSettings(
        Alias("east"),
        Alias("west"),
        ConsumerSettings(nobody),
        ProducerSettings(nobody),
        AdminSettings(nobody),
        AdminSettings(nobody),
    )
    admin = ClusterAdmin("west", nobody)
    try:
        yield CheckpointWriter(settings, admin, admin, cast(GroupOffsetTranslator, translator))
    finally:
        admin.close()


def stored(upstream: int, downstream: int) -> Record:
    found = Checkpoint(GROUP, *THERE, upstream, downstream)
    return Record(0, 0, found.key, found.value, ())


@pytest.mark.parametrize(
    ("last", "translated", "due", "standing"),
    [
        pytest.param(None, None, [], {}, id="not known"),
        pytest.param(None, (7, True), [7], {THERE: 7}, id="the first"),
        pytest.param((9, 7), (7, True), [], {THERE: 7}, id="written already"),
        pytest.param((9, 5), (7, False), [7], {THERE: 7}, id="further, and skips nothing"),
        pytest.param((9, 8), (7, False), [], {}, id="perhaps of an earlier remote topic of that name"),
        pytest.param((9, 8), (7, True), [7], {THERE: 7}, id="surely of an earlier remote topic of that name"),
        pytest.param((9, 8), None, [], {}, id="not known any more"),
    ],
)
def test_only_what_is_known_now_is_committed(
    writer: CheckpointWriter,
    translator: ScriptedTranslator,
    last: tuple[int, int] | None,
    translated: tuple[int, bool] | None,
    due: list[int],
    standing: dict[TopicPartition, int],
) -> None:
    if last is not None:
        writer.stored._take([stored(*last)])
    translator.translated = None if translated is None else TranslatedGroupOffset(THERE, *translated)
    checkpoints, positions = writer._translate(GROUP, {HERE: CommittedOffset(9)})
    assert [checkpoint.downstream for checkpoint in checkpoints] == due
    assert {where: what.offset for where, what in positions.items()} == standing


def test_a_checkpoint_goes_back_with_a_remote_topic_that_was_recreated(
    writer: CheckpointWriter, translator: ScriptedTranslator
) -> None:
    writer.stored._take([stored(9, 8)])
    translator.translated = TranslatedGroupOffset(THERE, TargetOffset(0), False, recreated=True)
    (checkpoint,), positions = writer._translate(GROUP, {HERE: CommittedOffset(9)})
    assert (checkpoint.upstream, checkpoint.downstream) == (9, 0)
    assert positions == {THERE: CommittedOffset(0)}
    writer.stored._take([stored(9, 0)])
    assert writer._translate(GROUP, {HERE: CommittedOffset(9)}) == ([], {THERE: CommittedOffset(0)})


def test_a_deleted_checkpoint_is_written_again(writer: CheckpointWriter, translator: ScriptedTranslator) -> None:
    translator.translated = TranslatedGroupOffset(THERE, 7, True)
    writer.stored._take([Record(1, 0, stored(9, 7).key, None, ()), Record(2, 0, b"?", b"?", ())])
    checkpoints, _ = writer._translate(GROUP, {HERE: CommittedOffset(9)})
    assert [checkpoint.downstream for checkpoint in checkpoints] == [7]


def test_offsets_on_the_target_go_forward_only() -> None:
    other = TopicPartition(TopicName("east.t"), 1)
    positions = {THERE: CommittedOffset(7), other: CommittedOffset(3, "note")}
    assert ahead(positions, {}) == positions
    assert ahead(positions, {THERE: CommittedOffset(6)}) == positions
    assert ahead(positions, {THERE: CommittedOffset(7), other: CommittedOffset(2)}) == {
        other: CommittedOffset(3, "note")
    }
    assert ahead(positions, {THERE: CommittedOffset(8), other: CommittedOffset(3)}) == {}


class Copied(ScriptedTranslator):
    """What lies before `end` was copied and is exact, and nothing else is."""

    end = 10

    def translate_offset(self, partition: TopicPartition, offset: int) -> TranslatedGroupOffset:
        return TranslatedGroupOffset(THERE, TargetOffset(min(offset, self.end)), offset <= self.end)


def test_a_group_that_reads_along_is_not_inexact_and_one_that_waits_is() -> None:
    copied = Copied()
    awaited = AwaitedTranslations(lambda where, offset: copied.translate_offset(where, offset).exact)
    for turn in range(20):
        now = 10.0 * turn
        awaited.update_group(GROUP, {HERE: SourceOffset(copied.end + 5)}, now)
        assert GROUP in awaited
        assert not awaited.late(now), "what it had committed at the last turn was copied since"
        copied.end += 5
    awaited.update_group(GROUP, {HERE: SourceOffset(copied.end + 1)}, 200.0)
    awaited.update_group(GROUP, {HERE: SourceOffset(copied.end + 9)}, 200.0 + LATE_S + 1)
    assert awaited.late(200.0 + LATE_S + 1) == {GROUP: [HERE]}, "it reads on, and nothing is copied"
    awaited.update_group(GROUP, {HERE: SourceOffset(copied.end - 2)}, 300.0)
    assert not awaited.late(300.0), "it went back"
    awaited.retain_groups([])
    assert GROUP not in awaited


def test_inexact_offsets_count_once_they_have_waited(writer: CheckpointWriter, translator: ScriptedTranslator) -> None:
    translator.translated = TranslatedGroupOffset(THERE, 7, False)
    writer._translate(GROUP, {HERE: CommittedOffset(9)})
    assert GROUP in writer._awaited
    translator.translated = TranslatedGroupOffset(THERE, 9, True)
    writer._translate(GROUP, {HERE: CommittedOffset(9)})
    assert GROUP not in writer._awaited


def test_an_untranslated_offset_counts_as_long_as_it_lasts(
    writer: CheckpointWriter, translator: ScriptedTranslator
) -> None:
    """On the target the group begins by its auto.offset.reset, a minute later as well."""
    offsets = {GROUP: {HERE: CommittedOffset(9)}}
    writer._follow(offsets)
    assert GROUP in writer._awaited
    writer._untranslated[GROUP, HERE.topic] = LOGGED
    writer._follow(offsets, every=True)
    assert writer.inexact == {GROUP: {HERE: 9}}
    assert GROUP not in writer._awaited, "it is rarely looked for again"
    writer._follow(offsets)
    assert writer.inexact == {GROUP: {HERE: 9}}
    writer.stored._take([stored(9, 7)])
    translator.translated = TranslatedGroupOffset(THERE, TargetOffset(7), True)
    writer._follow(offsets, every=True)
    assert writer.inexact == {}
    translator.translated = None
    writer._untranslated[GROUP, HERE.topic] = LOGGED
    writer._follow({GROUP: {HERE: CommittedOffset(8)}})
    assert writer.inexact == {GROUP: {HERE: 8}}
    writer._follow({})
    assert writer.inexact == {}


def test_an_offset_with_a_checkpoint_stays_known_after_the_source_has_deleted_it(writer: CheckpointWriter) -> None:
    """The map of a partition begins at the first offset of the source."""
    writer.stored._take([stored(9, 7)])
    writer._follow({GROUP: {HERE: CommittedOffset(9)}})
    assert GROUP not in writer._awaited
    assert not writer._untranslated, "the log says nothing of a missing checkpoint"
    writer._follow({GROUP: {HERE: CommittedOffset(10)}})
    assert GROUP in writer._awaited
    assert writer._untranslated
