"""Damaged batches: they are noticed on their way, and never reach a consumer of the remote topic."""

from __future__ import annotations

import pytest

from harness.consume import consume
from harness.produce import Codec, numbered, produce
from tests.integration.copying import CopyFlow
from tests.integration.records import seen
from tests.integration.segments import stored_batches


def damage(flow: CopyFlow, topic: str, number: int) -> None:
    """Turn a bit in the records of a stored batch, in the broker's own file."""
    batches = stored_batches(flow.source, topic)
    at = sum(batch.size for batch in batches[:number]) + 61 + len(batches[number].block) // 2
    (segment,) = (flow.source.brokers[1].data / f"{topic}-0").glob("*.log")
    with segment.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))


@pytest.mark.parametrize(("check_crcs", "per_batch"), [(True, 100), (True, 5), (False, 100), (False, 5)])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_partition_is_held_before_a_damaged_batch(
    copy_flow: CopyFlow, topic_name: str, codec: Codec, check_crcs: bool, per_batch: int
) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(3 * per_batch, size=1000), codec=codec, per_batch=per_batch)
    whole = consume(copy_flow.source, topic_name)
    damage(copy_flow, topic_name, 1)

    running = copy_flow.start(topic_name, consumer={"check_crcs": check_crcs})
    held = running.wait_for_held()

    # A batch that goes on as it is carries its checksum along: without a check here the target refuses it.
    assert held.source == (topic_name, 0)
    assert held.reason == ("corrupt batch" if check_crcs or per_batch < 100 else "record")
    assert f"offsets {per_batch} to {2 * per_batch - 1} " in held.text
    assert held.source_offset == per_batch
    assert running.release()[held.source].next_source == per_batch
    assert seen(consume(copy_flow.target, remote)) == seen(whole)[:per_batch]
