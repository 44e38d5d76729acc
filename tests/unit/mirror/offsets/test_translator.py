"""Translations of a real copier's maps, by a driver that reads them from the target; in virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from harness.virtual.loop import VirtualLoop
from harness.virtual.requests import METADATA
from tests.unit.copier.copied import REMOTE, SOURCE, TARGET, World, part, world
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.syncs import OffsetSync
from twinlog.mirror.offsets.translator import Translation, Translator
from twinlog.model.types import SourceOffset, TargetOffset
from twinlog.settings.client import ClientSettings

VALUES = [b"%d" % number for number in range(6)]


@contextmanager
def translating(here: World) -> Iterator[tuple[Translator, ClusterAdmin]]:
    """The translator of a driver, and its connections to the target."""
    source, target = (
        ClusterAdmin(alias, ClientSettings(cluster.bootstrap), VirtualLoop(here.loop.world))
        for alias, cluster in ((SOURCE, here.source), (TARGET, here.target))
    )
    try:
        for admin in (source, target):
            admin.connect()
        yield Translator(here.settings, source, target), target
    finally:
        for admin in (source, target):
            admin.close()


def copied_up_to(here: World, offset: int) -> bool:
    stored = here.stored()
    return stored is not None and stored.next_source == offset


def translated(translator: Translator, offset: int) -> Translation[TargetOffset] | None:
    return translator.to_target(part(), SourceOffset(offset))


def test_in_a_remote_topic_that_was_recreated_every_offset_leads_to_the_start_until_the_next_copy() -> None:
    with world() as here, translating(here) as (translator, target):
        copier = here.begin()
        here.feed(VALUES)
        here.until(lambda: copied_up_to(here, len(VALUES)))
        here.run(copier.release_partitions, [part()])
        target.topics()
        translator.refresh()
        asked = here.target.asked[METADATA]
        assert translated(translator, 4) == Translation(TargetOffset(4), True)
        assert here.target.asked[METADATA] == asked
        here.target.topics.delete(REMOTE)
        here.target.create(REMOTE)
        # The flow reads all topics once in a while.
        target.topics()
        asked = here.target.asked[METADATA]
        for offset in (0, 4, 6, 9):
            assert translated(translator, offset) == Translation(TargetOffset(0), False, "start")
        assert translator.past_copies(part(), SourceOffset(4)) is None
        assert here.target.asked[METADATA] <= asked + 2
        here.begin(here.grant(position=here.stored(), drained=True))
        here.write(b"new")
        here.until(lambda: copied_up_to(here, 7))
        assert here.copied() == [b"new"]
        translator.refresh()
        assert translated(translator, 7) == Translation(TargetOffset(1), True)


def test_an_id_that_is_older_than_the_position_recreates_no_topic() -> None:
    with world() as here, translating(here) as (translator, target):
        target.topics()
        here.target.topics.delete(REMOTE)
        here.target.create(REMOTE)
        here.begin()
        here.feed(VALUES)
        here.until(lambda: copied_up_to(here, len(VALUES)))
        translator.refresh()
        asked = here.target.asked[METADATA]
        for offset in (2, 4, 6):
            assert translated(translator, offset) == Translation(TargetOffset(offset), True)
        assert here.target.asked[METADATA] <= asked + 2


def write_syncs(here: World, pairs: Iterable[tuple[int, int]]) -> None:
    syncs = [OffsetSync(part().topic, 0, SourceOffset(source), TargetOffset(target)) for source, target in pairs]
    batch = encode_batch([(1, record_body(one.key, one.value, ())) for one in syncs], CODECS["none"])
    stamp(batch, -1, -1, -1)
    here.source.log(here.settings.offset_syncs_topic).append(bytes(batch))


def test_copies_of_mirror_maker_2_are_translated_by_all_its_offset_syncs() -> None:
    with world() as here, translating(here) as (translator, _):
        # Of these syncs, MirrorMaker 2 would translate offset 1590 by the sync of offset 0.
        write_syncs(here, ((offset, offset + 7) for offset in range(0, 20_000, 100)))
        translator.refresh()
        assert translated(translator, 1590) == Translation(TargetOffset(1508), False, "syncs")
        assert translator.to_source(part(), TargetOffset(1590)) == Translation(SourceOffset(1501), False, "syncs")
        assert translator.synced_up_to(part()) == 19_901


def test_a_group_that_comes_back_from_the_second_copies_skips_no_record() -> None:
    with world() as here, translating(here) as (translator, _):
        here.feed([b"%d" % number for number in range(100)])
        # Records 40 to 59 were copied twice.
        write_syncs(here, [(0, 10), (50, 60), (40, 70), (99, 129)])
        translator.refresh()
        for offset in range(100):
            there = translated(translator, offset)
            if there is not None:
                back = translator.to_source(part(), there.offset)
                assert back is None or back.offset <= offset


def test_a_group_after_the_end_of_the_copies_needs_no_offset_syncs() -> None:
    with world() as here, translating(here) as (translator, _):
        here.begin()
        here.feed(VALUES)
        here.until(lambda: copied_up_to(here, len(VALUES)))
        # The flow writes a sync before the end of its copies is stored.
        write_syncs(here, [(7, 7)])
        translator.read_syncs()
        assert translated(translator, 9) == Translation(TargetOffset(8), False, "syncs")
        translator.refresh()
        assert translated(translator, 9) == Translation(TargetOffset(6), False)


def test_offset_syncs_of_an_earlier_source_topic_translate_nothing() -> None:
    with world() as here, translating(here) as (translator, _):
        here.feed(VALUES)
        write_syncs(here, [(0, 0), (900, 900), (0, 901), (4, 905)])
        translator.refresh()
        assert translated(translator, 5) == Translation(TargetOffset(906), False, "syncs")
