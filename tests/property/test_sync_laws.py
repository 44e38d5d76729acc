"""Laws of offset syncs: read by MirrorMaker 2's rules, they skip nothing and stay within the lag they promise."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from harness.virtual.clock import VirtualClock
from twinlog.mirror.offsets.sync_store import MirrorTranslation
from twinlog.mirror.offsets.syncs import OffsetSync, SyncEmitter, decode_offset_sync
from twinlog.mirror.records import Checkpoint, decode_checkpoint
from twinlog.model.types import GroupId, TopicName, TopicPartition

PART = TopicPartition(TopicName("orders"), 0)

lags = st.sampled_from([0, 1, 3, 10, 100])
runs = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 7]), st.integers(1, 40)), min_size=1, max_size=4)
histories = st.lists(st.tuples(runs, st.sampled_from([0, 0, 1, 9]), st.booleans()), min_size=1, max_size=15)


@settings(deadline=None)
@given(lags, histories, st.booleans())
def test_readers_skip_nothing_and_stay_within_the_lag(
    lag_max: int, history: list[tuple[list[tuple[int, int]], int, bool]], again: bool
) -> None:
    emitter, reader = SyncEmitter(lag_max, VirtualClock().monotonic, delay_s=1e9), MirrorTranslation()
    reader.ready()
    copies: list[tuple[int, int]] = []
    source, target = 5, 3
    for holes, foreign, taken in history:
        target += foreign
        base, spans = target, []
        for hole, count in holes:
            source += hole
            spans.append((source, count))
            copies += zip(range(source, source + count), range(target, target + count), strict=True)
            source, target = source + count, target + count
        emitter.acknowledged(PART, spans, base)
        if not taken:
            continue
        syncs = emitter.take_syncs()
        if again and syncs:
            emitter.not_stored(syncs)
            syncs = emitter.take_syncs()
        for sync in syncs:
            reader.add(sync)
        behind = reader.translate(PART, source)
        assert behind is not None
        assert target - behind <= lag_max
        for offset in range(5, source + 1):
            found = reader.translate(PART, offset)
            assert found is not None
            if offset >= spans[0][0] or offset >= 5 + history[0][0][0][0]:
                assert found >= 0
            assert found <= min((there for here, there in copies if here >= offset), default=target)


@settings(deadline=None)
@given(lags, st.lists(st.integers(1, 3000), min_size=1, max_size=8))
def test_readers_go_back_about_as_far_as_they_were_behind(lag_max: int, counts: list[int]) -> None:
    emitter, reader = SyncEmitter(lag_max, VirtualClock().monotonic, delay_s=1e9), MirrorTranslation()
    reader.ready()
    end = 0
    for count in counts:
        emitter.acknowledged(PART, [(end, count)], end)
        end += count
        for sync in emitter.take_syncs():
            reader.add(sync)
    for offset in {*range(0, end, max(1, end // 200)), *range(max(0, end - 50), end + 1)}:
        found = reader.translate(PART, offset)
        assert found is not None
        # Three times, and a little more where batches are large.
        assert 0 <= offset - found <= 4 * (end - offset + lag_max + 1)


numbers = st.integers(-(2**63), 2**63 - 1)
partitions = st.integers(-(2**31), 2**31 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(texts, texts, partitions, numbers, numbers, texts, st.binary(max_size=3))
def test_what_is_written_is_read(
    one: str, other: str, partition: int, here: int, there: int, metadata: str, behind: bytes
) -> None:
    sync = OffsetSync(TopicName(one), partition, here, there)
    checkpoint = Checkpoint(GroupId(other), TopicName(one), partition, here, there, metadata)
    assert decode_offset_sync(sync.key + behind, sync.value + behind) == sync
    assert decode_checkpoint(checkpoint.key + behind, checkpoint.value + behind) == checkpoint


@given(st.one_of(st.none(), st.binary(max_size=40)), st.one_of(st.none(), st.binary(max_size=40)))
def test_whatever_the_bytes_a_record_or_none_is_read(key: bytes | None, value: bytes | None) -> None:
    for decode in (decode_offset_sync, decode_checkpoint):
        decode(key, value)
