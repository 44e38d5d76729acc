"""A partition never appends under an identity that it had before."""

from __future__ import annotations

import pytest

from twinlog.kafka.net.loop import Loop
from twinlog.model.types import TopicName, TopicPartition
from twinlog.task.producer_ids import LAST_EPOCH, ProducerIds
from twinlog.write.queue import ProducerIdentity

ONE, OTHER = (TopicPartition(TopicName("north.t"), number) for number in range(2))


@pytest.fixture
def identities(loop: Loop) -> ProducerIds:
    """Those of a target that makes the producers 100, 101 and so on."""
    made = iter(range(100, 200))

    async def ask() -> tuple[int, int]:
        return next(made), 0

    own = ProducerIds(ask)
    loop.run(own.renew)
    return own


def test_what_comes_back_has_the_next_epoch(identities: ProducerIds) -> None:
    assert identities.first(ONE) == identities.first(OTHER) == ProducerIdentity(100, 0)
    identities.leave(ONE, identities.first(ONE))
    assert identities.first(ONE) == ProducerIdentity(100, 1)
    assert identities.first(OTHER) == ProducerIdentity(100, 0)


def test_what_has_left_with_the_last_epoch_comes_back_as_another_producer(loop: Loop, identities: ProducerIds) -> None:
    identities.leave(ONE, ProducerIdentity(100, LAST_EPOCH - 1))
    loop.run(identities.prepare)
    assert identities.first(ONE) == ProducerIdentity(100, LAST_EPOCH)
    identities.leave(ONE, ProducerIdentity(100, LAST_EPOCH))
    loop.run(identities.prepare)
    assert identities.first(ONE) == identities.first(OTHER) == ProducerIdentity(101, 0)


def test_what_goes_on_behind_the_last_epoch_does_not_come_back_with_an_old_one(
    loop: Loop, identities: ProducerIds
) -> None:
    now = loop.run(identities.after, ProducerIdentity(100, LAST_EPOCH))
    assert now == ProducerIdentity(101, 0)
    identities.leave(ONE, now)
    assert identities.first(ONE) == ProducerIdentity(101, 1)
    # The other one still appends as the first producer; under the second any epoch is new to it.
    identities.leave(OTHER, loop.run(identities.after, ProducerIdentity(100, 7)))
    assert identities.first(OTHER) == ProducerIdentity(101, 9)
