"""Transactions: which of their records are copied, and that markers never keep a flow from its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import NewRecord, numbered, produce
from harness.topics import offsets
from harness.wait import wait_for
from tests.integration.copying import CopyFlow
from tests.integration.records import seen
from tests.integration.segments import stored_batches
from twinlog.settings.client import IsolationLevel

DEADLINE_S = 60.0
LEVELS: tuple[IsolationLevel, ...] = ("read_committed", "read_uncommitted")


class Transaction:
    """An open transaction; every record is a batch of its own and is on the broker when `write` returns."""

    def __init__(self, cluster: KafkaCluster, topic: str, transactional_id: str) -> None:
        self._topic = topic
        self._producer = Producer({**cluster.client_config(), "transactional.id": transactional_id, "linger.ms": 0})
        self._producer.init_transactions(DEADLINE_S)
        self._producer.begin_transaction()

    def write(self, value: str) -> None:
        self._producer.produce(self._topic, value.encode().ljust(200, b"."), partition=0)
        assert self._producer.flush(DEADLINE_S) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(DEADLINE_S)

    def abort(self) -> None:
        self._producer.abort_transaction(DEADLINE_S)


def values(cluster: KafkaCluster, topic: str, isolation: IsolationLevel = "read_uncommitted") -> list[str]:
    """Values of a topic in order, without their filling."""
    return [(one.value or b"").decode().rstrip(".") for one in consume(cluster, topic, isolation=isolation)]


def wait_until_marked(cluster: KafkaCluster, topic: str, markers: int) -> None:
    """Markers are written after the coordinator has answered: wait until that many control batches are there."""

    def there() -> bool:
        return sum(batch.control for batch in stored_batches(cluster, topic)) == markers

    wait_for(there, DEADLINE_S, f"{topic} has {markers} markers")


@pytest.mark.parametrize("isolation", LEVELS)
def test_interleaved_transactions(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str], isolation: IsolationLevel
) -> None:
    source = copy_flow.source
    remote = copy_flow.create(topic_name)
    one, two = (Transaction(source, topic_name, new_name("tx")) for _ in range(2))
    for number in range(30):
        one.write(f"committed {number}")
        two.write(f"aborted {number}")
        if number % 10 == 5:
            produce(source, topic_name, [NewRecord(b"plain %d" % number)])
    two.abort()
    one.commit()
    produce(source, topic_name, [NewRecord(b"plain between")])
    three = Transaction(source, topic_name, new_name("tx"))
    three.write("aborted at the end")
    three.abort()
    wait_until_marked(source, topic_name, 3)
    made = stored_batches(source, topic_name)
    assert made[-1].control
    assert sum(batch.transactional for batch in made) == 61 + 3
    assert len(values(source, topic_name, "read_committed")) == 34
    assert len(values(source, topic_name, "read_uncommitted")) == 65

    # Small fetches: a transaction begins in one and ends in another.
    running = copy_flow.start(
        topic_name, consumer={"isolation_level": isolation, "max_partition_fetch_bytes": 2000, "fetch_max_bytes": 2000}
    )
    copy_flow.wait_until_caught_up(running, topic_name)
    wait_for(lambda: running.lag(topic_name) == 0, DEADLINE_S, "nothing is left to copy")
    released = running.release()
    assert running.heard.failures == []

    end = offsets(source, topic_name)[1]
    assert [position.next_source for position in released.values()] == [end]
    assert values(copy_flow.target, remote) == values(source, topic_name, isolation)
    after = stored_batches(copy_flow.target, remote)
    assert not any(batch.transactional or batch.control for batch in after)
    assert seen(consume(copy_flow.target, remote)) == seen(consume(source, topic_name, isolation=isolation))


@pytest.mark.parametrize("isolation", LEVELS)
def test_a_log_of_nothing_but_aborted_transactions(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str], isolation: IsolationLevel
) -> None:
    remote = copy_flow.create(topic_name)
    produce(copy_flow.source, topic_name, numbered(20, size=2000), transactional_id=new_name("tx"), abort=True)
    wait_until_marked(copy_flow.source, topic_name, 1)

    copy_flow.copy(topic_name, consumer={"isolation_level": isolation})

    stored = copy_flow.stored(topic_name)
    assert stored is not None
    assert stored.next_source == 21
    assert offsets(copy_flow.target, remote) == (0, 0 if isolation == "read_committed" else 20)


@contextmanager
def open_transaction(cluster: KafkaCluster, topic: str, name: str) -> Iterator[Transaction]:
    """A transaction that the test ends; aborted when the test did not come so far."""
    transaction = Transaction(cluster, topic, name)
    try:
        yield transaction
    except BaseException:
        transaction.abort()
        raise


def test_an_open_transaction_holds_back_what_follows_it(
    copy_flow: CopyFlow, topic_name: str, new_name: Callable[[str], str]
) -> None:
    source = copy_flow.source
    remote = copy_flow.create(topic_name)
    produce(source, topic_name, [NewRecord(b"before")])
    with open_transaction(source, topic_name, new_name("tx")) as transaction:
        transaction.write("inside 1")
        produce(source, topic_name, [NewRecord(b"after")])
        transaction.write("inside 2")
        assert values(source, topic_name, "read_committed") == ["before"]
        assert values(source, topic_name, "read_uncommitted") == ["before", "inside 1", "after", "inside 2"]

        running = copy_flow.start(topic_name, consumer={"isolation_level": "read_committed"})
        running.wait_for_position(topic_name, 1)
        # It has looked past the first record, found the open transaction, and has nothing left to do.
        wait_for(lambda: running.lag(topic_name) == 0, DEADLINE_S, "caught up with the last stable offset")
        produce(source, topic_name, [NewRecord(b"after too")])
        assert running.position(topic_name).next_source == 1
        assert values(copy_flow.target, remote) == ["before"]

        transaction.commit()
    wait_until_marked(source, topic_name, 1)
    copy_flow.wait_until_caught_up(running, topic_name)
    running.release()
    assert values(copy_flow.target, remote) == ["before", "inside 1", "after", "inside 2", "after too"]
