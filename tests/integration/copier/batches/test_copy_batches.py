"""Whole batches: what a consumer of the remote topic sees is what a consumer of the source sees; the codec stays."""

from __future__ import annotations

import itertools
import random

import pytest

from harness.consume import consume
from harness.jvm.tools import dump_log
from harness.produce import Codec, NewRecord, produce
from tests.integration.copying import CopyFlow
from tests.integration.records import lively, seen
from tests.integration.segments import CODECS, SMALL_BATCH_BYTES, codecs_of, stored_batches


def test_large_batches_go_on_as_they_are(copy_flow: CopyFlow, topic_name: str) -> None:
    remote = copy_flow.create(topic_name, len(CODECS))
    for partition, codec in enumerate(CODECS):
        produce(copy_flow.source, topic_name, lively(400), partition=partition, codec=codec, per_batch=200)
        made = stored_batches(copy_flow.source, topic_name, partition)
        assert [(batch.codec, batch.count) for batch in made] == [(codec, 200), (codec, 200)]
        assert all(batch.size > SMALL_BATCH_BYTES for batch in made)

    copy_flow.copy(topic_name)

    for partition, codec in enumerate(CODECS):
        before = stored_batches(copy_flow.source, topic_name, partition)
        after = stored_batches(copy_flow.target, remote, partition)
        assert [batch.codec for batch in after] == [codec, codec]
        assert [batch.block for batch in after] == [batch.block for batch in before]
    assert seen(consume(copy_flow.target, remote)) == seen(consume(copy_flow.source, topic_name))
    assert len(consume(copy_flow.target, remote)) == 2000


def test_kafkas_dump_tool_accepts_copied_batches(copy_flow: CopyFlow, topic_name: str) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, lively(300), codec="zstd", per_batch=300)

    copy_flow.copy(topic_name)

    # A producer that is kept waiting sends the rest as another batch.
    made = stored_batches(copy_flow.source, topic_name, 0)
    dump = dump_log(copy_flow.target.brokers[1].data, remote)
    batch, *others = [line for line in dump.splitlines() if line.startswith("baseOffset:")]
    assert len(others) == len(made) - 1
    for word in (
        "baseOffset: 0 ",
        f"lastOffset: {made[0].count - 1} ",
        "compresscodec: zstd",
        "isTransactional: false",
        "isvalid: true",
    ):
        assert word in batch
    assert "baseSequence: 0 " in batch
    assert "producerId: -1 " not in batch


@pytest.mark.parametrize("codec", CODECS)
def test_one_record_batches_are_merged(copy_flow: CopyFlow, topic_name: str, codec: Codec) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, lively(150, size=400), codec=codec, per_batch=1)
    made = stored_batches(copy_flow.source, topic_name)
    assert len(made) == 150
    assert codec in {batch.codec for batch in made}

    copy_flow.copy(topic_name)

    after = stored_batches(copy_flow.target, remote)
    # A record without a value is stored uncompressed, and codecs are not mixed in one batch.
    runs = 1 + sum(one.codec != other.codec for one, other in itertools.pairwise(made))
    assert len(after) <= runs + 5
    assert sum(batch.count for batch in after) == 150
    assert {batch.codec for batch in after} == {batch.codec for batch in made}
    assert seen(consume(copy_flow.target, remote)) == seen(consume(copy_flow.source, topic_name))


def test_batches_of_all_sizes_keep_their_order(copy_flow: CopyFlow, topic_name: str) -> None:
    remote = copy_flow.create(topic_name)
    numbers = random.Random(5)
    number = 0
    while number < 600:
        count = numbers.choice([1, 1, 1, 2, 5, 80, 150])
        codec = numbers.choice(CODECS)
        records = [NewRecord(b"%06d" % (number + n) + b"x" * 300, b"k") for n in range(count)]
        produce(copy_flow.source, topic_name, records, codec=codec, per_batch=count)
        number += count
    sizes = [batch.size for batch in stored_batches(copy_flow.source, topic_name)]
    assert min(sizes) < 500
    assert max(sizes) > SMALL_BATCH_BYTES

    copy_flow.copy(topic_name, consumer={"max_partition_fetch_bytes": 20_000})

    after = consume(copy_flow.target, remote)
    assert [int((one.value or b"")[:6]) for one in after] == list(range(number))
    assert seen(after) == seen(consume(copy_flow.source, topic_name))


@pytest.mark.parametrize("codec", ["zstd", "lz4", "none"])
def test_the_users_codec_replaces_the_producers(copy_flow: CopyFlow, topic_name: str, codec: Codec) -> None:
    remote = copy_flow.create(topic_name, len(CODECS))
    for partition, written in enumerate(CODECS):
        produce(copy_flow.source, topic_name, lively(300), partition=partition, codec=written, per_batch=150)
        assert codecs_of(copy_flow.source, topic_name, partition) == {written}

    copy_flow.copy(topic_name, producer={"compression_type": codec})

    for partition in range(len(CODECS)):
        assert codecs_of(copy_flow.target, remote, partition) == {codec}
    assert seen(consume(copy_flow.target, remote)) == seen(consume(copy_flow.source, topic_name))
