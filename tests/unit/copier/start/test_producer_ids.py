"""A partition never appends under an identity that it had before."""

from __future__ import annotations

import pytest

from twinlog.copier.start.producer_ids import LAST_EPOCH, ProducerIds
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.model.types import TopicName, TopicPartition

ONE, OTHER = (TopicPartition(TopicName("north.t"), number) for number in range(2))


@pytest.fixture
def producer_ids(loop: Loop) -> ProducerIds:
    """Those of a target that makes the producers 100, 101 and so on."""
    made = iter(range(100, 200))

    async def ask() -> tuple[int, int]:
        return next(made), 0

    own = ProducerIds(ask)
    loop.run(own.renew_producer_id)
    return own


def test_what_comes_back_has_the_next_epoch(producer_ids: ProducerIds) -> None:
    assert producer_ids.new_identity(ONE) == producer_ids.new_identity(OTHER) == ProducerIdentity(100, 0)
    producer_ids.release_identity(ONE, producer_ids.new_identity(ONE))
    assert producer_ids.new_identity(ONE) == ProducerIdentity(100, 1)
    assert producer_ids.new_identity(OTHER) == ProducerIdentity(100, 0)


def test_what_has_left_with_the_last_epoch_comes_back_as_another_producer(
    loop: Loop, producer_ids: ProducerIds
) -> None:
    producer_ids.release_identity(ONE, ProducerIdentity(100, LAST_EPOCH - 1))
    loop.run(producer_ids.prepare_producer)
    assert producer_ids.new_identity(ONE) == ProducerIdentity(100, LAST_EPOCH)
    producer_ids.release_identity(ONE, ProducerIdentity(100, LAST_EPOCH))
    loop.run(producer_ids.prepare_producer)
    assert producer_ids.new_identity(ONE) == producer_ids.new_identity(OTHER) == ProducerIdentity(101, 0)


def test_what_goes_on_after_the_last_epoch_does_not_come_back_with_an_old_one(
    loop: Loop, producer_ids: ProducerIds
) -> None:
    now = loop.run(producer_ids.continue_identity, ProducerIdentity(100, LAST_EPOCH))
    assert now == ProducerIdentity(101, 0)
    producer_ids.release_identity(ONE, now)
    assert producer_ids.new_identity(ONE) == ProducerIdentity(101, 1)
    # The other one still appends as the first producer; under the second any epoch is new to it.
    producer_ids.release_identity(OTHER, loop.run(producer_ids.continue_identity, ProducerIdentity(100, 7)))
    assert producer_ids.new_identity(OTHER) == ProducerIdentity(101, 9)
