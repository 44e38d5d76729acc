"""Micro-batches count once, wherever somebody ends: a task, the driver before or within its commit, or a second driver.

Tasks and the driver's commit are called here without Spark, and end where the test has them end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.topics import create_topic
from twinlog.errors import ClusterError, CopyError, FencedError
from twinlog.kafka.coordinator.transactions import NOBODY
from twinlog.model.types import TopicName
from twinlog.settings.client import ClientSettings, ProducerSettings
from twinlog.spark.dataframes.decision import CommitDecision
from twinlog.spark.dataframes.transactions import BatchTransactions
from twinlog.spark.dataframes.write_task import MicroBatch, WriteTask, WriteTaskResult
from twinlog.spark.dataframes.writer import abort_parts, commit_parts, link_to, transactions_of, write_rows

QUERY = "6f1ad9ba-5a9c-4b5c-8a1c-9b7e6a2f0c11"


class Query:
    """A streaming query over one topic; each part writes its name."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        client = ClientSettings((cluster.bootstrap,))
        producer = ProducerSettings(client, delivery_timeout_ms=60_000, transaction_timeout_ms=60_000)
        self.task = WriteTask(producer, TopicName(topic), True, False, topic)

    def write(self, number: int, part: int, *values: str) -> WriteTaskResult:
        rows = pa.record_batch({"value": pa.array([f"{number}/{value}" for value in values], pa.string())})
        return write_rows(self.task, [rows], MicroBatch(QUERY, number, part), part)

    def commit(self, number: int, *parts: WriteTaskResult) -> None:
        commit_parts(self.task, number, parts)

    @property
    def transactions(self) -> BatchTransactions:
        return transactions_of(self.task, link_to(self.task.producer), QUERY)

    def on_loop(self, step: Callable[..., Any], *args: Any) -> Any:
        return link_to(self.task.producer).loop.run(step, *args)

    def decide(self, number: int, *parts: WriteTaskResult) -> None:
        """As far as a driver comes that ends right after its decision."""
        transactions = self.transactions
        holder = self.on_loop(transactions._become_root, {part.root for part in parts})
        decision = CommitDecision(number, tuple(part.holder for part in parts))
        (somewhere,) = {part.somewhere for part in parts if part.somewhere is not None}
        self.on_loop(transactions._decisions.commit_decision, decision, transactions._root, holder, somewhere)

    def end(self, part: WriteTaskResult) -> None:
        """As a driver does after its decision."""
        coordinator = self.transactions.coordinator(part.part)

        async def commit() -> bool:
            return await coordinator.end(part.holder, commit=True)

        assert self.on_loop(commit)

    def time_out(self, part: WriteTaskResult) -> None:
        """As the coordinator does: it aborts the transaction, and its producer can do nothing more."""
        self.on_loop(self.transactions.coordinator(part.part).init)

    @property
    def found(self) -> list[str]:
        """What a reader of committed records has, up to the first open transaction."""
        return sorted((one.value or b"").decode() for one in consume(self.cluster, self.topic))


@pytest.fixture
def query(target_cluster: KafkaCluster, new_name: Callable[[str], str]) -> Query:
    return Query(target_cluster, create_topic(target_cluster, new_name("sink")))


def test_nothing_counts_before_the_commit_and_a_failed_attempt_never_does(query: Query) -> None:
    first = query.write(0, 0, "a")
    other = query.write(0, 1, "b")
    again = query.write(0, 0, "a")
    assert query.found == []
    query.commit(0, again, other)
    assert query.found == ["0/a", "0/b"]
    assert first.records == 1
    # Its rows cannot come back: another attempt has the transaction.
    with pytest.raises(FencedError):
        query.end(first)

    abort_parts(query.task, 1, [query.write(1, 0, "c")])
    query.commit(1, query.write(1, 0, "d"), query.write(1, 1))
    assert query.found == ["0/a", "0/b", "1/d"]


def test_a_driver_that_ends_within_its_commit_is_followed_by_one_that_goes_on(query: Query) -> None:
    """With as many tasks as before, or with another number: the decision names all that is to be committed."""
    for number, tasks in enumerate((3, 1, 5)):
        parts = [query.write(number, part, f"{part}") for part in range(3)]
        query.decide(number, *parts)
        query.end(parts[1])
        # What it does next: the abort of a commit that failed, and the micro-batch once more.
        abort_parts(query.task, number, parts)
        later = [query.write(number, part, "twice") for part in range(tasks)]
        assert {part.holder for part in later} == {NOBODY}
        query.commit(number, *later)
        assert query.found == [f"{batch}/{part}" for batch in range(number + 1) for part in range(3)]


def test_what_the_target_aborted_after_the_decision_is_written_again_and_nothing_else(query: Query) -> None:
    parts = [query.write(0, part, f"{part}") for part in range(3)]
    query.decide(0, *parts)
    query.end(parts[1])
    query.time_out(parts[2])
    fewer = [query.write(0, part, f"{part}") for part in range(2)]
    with pytest.raises(CopyError, match="was written by 3 tasks, of which the target has dropped the rows of tasks 2"):
        query.commit(0, *fewer)
    assert query.found == ["0/0", "0/1"]
    again = [query.write(0, part, f"{part}") for part in range(3)]
    assert [part.records for part in again] == [0, 0, 1]
    # And this driver ends at the worst moment, too.
    query.decide(0, *again)
    query.commit(0, *(query.write(0, part, "twice") for part in range(3)))
    assert query.found == ["0/0", "0/1", "0/2"]


def test_of_two_drivers_the_one_that_began_last_writes(query: Query) -> None:
    old = [query.write(0, part, f"old {part}") for part in range(2)]
    new = [query.write(0, 0, "new 0")]
    with pytest.raises((FencedError, ClusterError)):
        query.commit(0, *old)
    abort_parts(query.task, 0, old)
    new.append(query.write(0, 1, "new 1"))
    query.commit(0, *new)
    assert query.found == ["0/new 0", "0/new 1"]


def test_a_micro_batch_that_was_open_for_too_long_does_not_count_in_part(query: Query) -> None:
    parts = [query.write(0, part, f"{part}") for part in range(2)]
    query.time_out(parts[1])
    with pytest.raises(ClusterError, match=r"is closed: .*kafka\.transaction\.timeout\.ms = 60000"):
        query.commit(0, *parts)
    abort_parts(query.task, 0, parts)
    assert query.found == []


def test_a_checkpoint_that_is_older_than_the_target_is_refused(query: Query) -> None:
    query.commit(4, query.write(4, 0, "a"))
    with pytest.raises(CopyError, match="the checkpoint is older than the written rows"):
        query.write(3, 0, "b")
    query.write(5, 0, "open")
    with pytest.raises(CopyError, match="has it, and a part of the rows after it"):
        query.write(4, 0, "a")
    # Another query does not care.
    part = write_rows(query.task, [pa.record_batch({"value": pa.array(["c"])})], MicroBatch("another", 0, 0), first=0)
    commit_parts(query.task, 0, [replace(part)])
    query.commit(5, query.write(5, 0, "d"))
    assert query.found == ["4/a", "5/d", "c"]
