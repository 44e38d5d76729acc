"""A copier holds a bounded amount however many partitions wait for a slow target, and a stuck one stops no other."""

from __future__ import annotations

import pytest

from harness.consume import consume
from harness.produce import numbered, produce
from harness.quotas import quota
from harness.topics import offsets
from harness.wait import wait_for
from tests.integration.copying import DEADLINE_S, CopyFlow, RunningCopier
from tests.integration.records import seen

MB = 1 << 20
LIMIT = 4 * MB
UNCERTAINTY = 512 * 1024
"""One batch may come although it is larger than what was asked for, and memory is taken in pieces."""


def sampled(running: RunningCopier, sizes: list[int]) -> int:
    """Note what the copier holds, and return how many bytes were appended."""
    sizes.append(running.memory_bytes())
    return sum(part.copied.counts.bytes for part in running.copier.partitions.values())


def test_many_partitions_and_a_slow_target_stay_within_the_budget(copy_flow: CopyFlow, topic_name: str) -> None:
    partitions = 16
    remote = copy_flow.create(topic_name, partitions)
    for number in range(partitions):
        produce(copy_flow.source, topic_name, numbered(100, size=10_000), partition=number, per_batch=10)
    sizes: list[int] = []
    with quota(copy_flow.target, "twinlog-test-producer", "producer_byte_rate", 3_000_000):
        running = copy_flow.start(topic_name, copier_memory_bytes=LIMIT)

        def each_moves() -> bool:
            sampled(running, sizes)
            return all(running.position(topic_name, number).next_source for number in range(partitions))

        wait_for(each_moves, DEADLINE_S, "something of each partition is copied", every_s=0.02)
    wait_for(lambda: sampled(running, sizes) >= 16 * MB * 0.95, DEADLINE_S, "all is copied", every_s=0.02)
    copy_flow.wait_until_caught_up(running, topic_name)

    assert LIMIT // 2 < max(sizes) <= LIMIT + UNCERTAINTY
    assert seen(consume(copy_flow.target, remote)) == seen(consume(copy_flow.source, topic_name))


def hold_up(running: RunningCopier, topic: str, stuck: bool) -> None:
    """Have the target take nothing of a topic, as a broker that does not answer, or have it take all again."""

    async def stop() -> None:
        for at, part in running.copier.partitions.items():
            if at.topic == topic:
                part.queue.stopped = stuck
                part._appends._services.sender.offer_queue(part.queue)

    running._loop.run(stop)


@pytest.mark.parametrize("mode", [pytest.param("disabled", marks=pytest.mark.scenario), "enabled"])
def test_partitions_that_are_stuck_stop_no_other(copy_flow: CopyFlow, topic_name: str, mode: str) -> None:
    stuck = f"{topic_name}-stuck"
    remotes = {copy_flow.create(stuck, 8): stuck, copy_flow.create(topic_name): topic_name}
    copier = copy_flow.start(stuck, topic_name, copier_memory_bytes=LIMIT, exactly_once=mode)
    hold_up(copier, stuck, True)
    for number in range(8):
        produce(copy_flow.source, stuck, numbered(100, size=10_000), partition=number, per_batch=2)
    sizes: list[int] = []
    wait_for(lambda: sampled(copier, sizes) or sizes[-1] > LIMIT // 2, DEADLINE_S, "partitions wait", every_s=0.02)

    # More than the copier may hold.
    produce(copy_flow.source, topic_name, numbered(500, size=10_000), per_batch=10)
    end = offsets(copy_flow.source, topic_name)[1]

    def copied() -> bool:
        sampled(copier, sizes)
        return copier.position(topic_name).next_source >= end

    wait_for(copied, 3 * DEADLINE_S, "the other topic is copied", every_s=0.02)
    assert max(sizes) <= LIMIT + UNCERTAINTY
    assert not any(copier.position(stuck, number).next_source for number in range(8))

    hold_up(copier, stuck, False)
    copy_flow.wait_until_caught_up(copier, stuck, topic_name)
    for remote, topic in remotes.items():
        assert seen(consume(copy_flow.target, remote)) == seen(consume(copy_flow.source, topic))
