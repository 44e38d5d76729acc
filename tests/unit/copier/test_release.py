"""What a copier releases, and whether something of it may still arrive: neither of its clusters answers here."""

from __future__ import annotations

from typing import Any

import pytest

from twinlog.copier.copier import Copier
from twinlog.copier.partition.context import CopierListener
from twinlog.copier.partition.life import PartitionLife
from twinlog.copier.transactions.open_transaction import TransactionPartitions
from twinlog.copier.transactions.transactions import TransactionalProducer, Transactions
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.model.types import Alias, TopicName, TopicPartition
from twinlog.settings.client import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from twinlog.settings.flow import FlowSettings

SOURCE, REMOTE = TopicPartition(TopicName("shop"), 0), TopicPartition(TopicName("north.shop"), 0)
POSITION = Position(5, 5, writer=Writer(1, 0, 5))


def copier(loop: Loop) -> Copier:
    client = ClientSettings(("127.0.0.1:1",))
    settings = FlowSettings(
        source=Alias("north"),
        target=Alias("south"),
        consumer=ConsumerSettings(client),
        producer=ProducerSettings(client),
        source_admin=AdminSettings(client),
        target_admin=AdminSettings(client),
    )
    return Copier(loop, settings, CopierListener())


@pytest.mark.parametrize("drained", [True, False])
def test_what_never_began_is_as_undrained_as_it_came(drained: bool) -> None:
    """The copier before it was lost, and this one has not looked at the log yet."""
    loop = Loop()
    one = copier(loop)
    one.add_grants([Grant(SOURCE, REMOTE, None, 1 << 20, POSITION, drained=drained)])
    assert loop.run(one.release_partitions, [SOURCE]) == {}
    assert (one.undrained, one.granted) == (set() if drained else {SOURCE}, [])
    one.stop()
    loop.close()


@pytest.mark.parametrize("drained", [True, False])
def test_what_is_still_in_doubt_is_not_drained(drained: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()
    one = copier(loop)

    async def close(_leaving: object) -> None:
        """Nothing can be stored."""

    monkeypatch.setattr(one._committer, "close", close)
    one._begin(PartitionLife(Grant(SOURCE, REMOTE, None, 1 << 20, POSITION, drained=drained)), POSITION)
    assert loop.run(one.release_partitions, [SOURCE]) == {SOURCE: POSITION}
    assert one.undrained == (set() if drained else {SOURCE})
    one.stop()
    loop.close()


class Forgetting:
    """Recovery of a transaction that ends well."""

    def forget(self, part: object) -> None:
        """Nothing is kept of it."""


@pytest.mark.parametrize("lost", [True, False])
def test_what_the_target_lost_of_transactions_is_left_undrained_at_once(
    lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for it to be copied again; whoever comes next compares."""
    loop = Loop()
    one = copier(loop)
    identity = ProducerIdentity(1, 0, transactional=True)
    transactions: Any = Transactions.__new__(Transactions)
    monkeypatch.setattr(Transactions, "identity", identity)
    transactions.ended = False
    in_transaction = TransactionPartitions(one.target, one._appender)
    transactions._loop, transactions._wake = loop, in_transaction.wake
    transactions._now = loop.clock.monotonic
    transactions._in_transaction, transactions._stored, transactions._sequences = (
        in_transaction,
        {},
        {},
    )
    transactions._recovery = Forgetting()

    async def close(_leaving: object) -> None:
        """Nothing can be stored."""

    monkeypatch.setattr(one._committer, "close_committed", close)
    one._producer = TransactionalProducer(one.context, transactions, one._committer)
    one._begin(PartitionLife(Grant(SOURCE, REMOTE, None, 1 << 20, POSITION)), POSITION)
    part = one.partitions[SOURCE]
    transactions._stored[SOURCE] = part.acknowledged
    if lost:
        part.truncated(3)
    assert loop.run(one.release_partitions, [SOURCE]) == {SOURCE: POSITION}
    assert one.undrained == ({SOURCE} if lost else set())
    one.stop()
    loop.close()
