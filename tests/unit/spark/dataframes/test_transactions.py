"""What becomes of a micro-batch that was decided on, and whose driver ended before all of it was committed.

Tasks take partitions into their transactions and write nothing to them;
`tests/integration/spark/test_sink_transactions.py` writes rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import virtual_loop
from twinlog.errors import ClusterError, CopyError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.transactions import NOBODY, ProducerEpoch, TransactionCoordinator
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.client import ClientSettings
from twinlog.spark.dataframes.decision import CommitDecision
from twinlog.spark.dataframes.transactions import BatchTransactions
from twinlog.spark.dataframes.write_task import MicroBatch, WriteTaskResult

TOPIC = TopicName("rows")
GROUP = "sink.query"


class Query:
    """A query that writes micro-batch 7 to three partitions."""

    def __init__(self, cluster: VirtualCluster, run: Callable[..., Any]) -> None:
        self.cluster = cluster
        self._run = run
        self._client = ClusterClient(cluster.loop, "west", ClientSettings(cluster.bootstrap))
        run(self._client.connect)

    @property
    def transactions(self) -> BatchTransactions:
        return BatchTransactions(self._client, "sink", "query", timeout_ms=60_000, patience_ms=5_000)

    def write(self, part: int, partition: int, number: int = 7) -> WriteTaskResult:
        """A task, all of whose rows go to one partition."""
        transactions, where = self.transactions, TopicPartition(TOPIC, partition)
        written: WriteTaskResult
        written, holder = self._run(transactions.begin_part, MicroBatch("query", number, part))
        if holder is None:
            return written
        assert not self._run(transactions.coordinator(part).add, holder, [where])
        return replace(written, records=1, holder=holder, somewhere=where)

    def decide(self, *parts: WriteTaskResult) -> None:
        """As far as a driver comes that ends right after its decision."""
        transactions = self.transactions
        holder = self._run(transactions._become_root, {part.root for part in parts})
        decision = CommitDecision(7, tuple(part.holder for part in parts))
        self._run(transactions._decisions.commit_decision, decision, transactions._root, holder, parts[0].somewhere)

    def commit(self, *parts: WriteTaskResult) -> None:
        self._run(self.transactions.commit, 7, parts)

    def abort(self, *parts: WriteTaskResult) -> None:
        self._run(self.transactions.abort, 7, parts)

    def drop(self, part: WriteTaskResult, *late: TopicPartition) -> None:
        self._run(self.transactions.abort_parts, [part], 10.0, late)

    def time_out(self, part: WriteTaskResult) -> None:
        """As the coordinator does: it aborts the transaction, and its producer can do nothing more."""
        self._run(self.transactions.coordinator(part.part).init)

    def forget(self, part: WriteTaskResult) -> None:
        """As the coordinator does after transactional.id.expiration.ms."""
        del self.cluster.transactions.open[f"{GROUP}-{part.part}"]

    def is_open(self, part: WriteTaskResult) -> bool:
        return bool(self.cluster.transactions.open[f"{GROUP}-{part.part}"].parts)

    @property
    def last(self) -> CommitDecision | None:
        decision: CommitDecision | None = self._run(self.transactions._decisions.last)
        return decision

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def query() -> Iterator[Query]:
    with virtual_loop(1) as loop:
        cluster = VirtualCluster(loop, "west")
        cluster.create(TOPIC, 3)
        query = Query(cluster, loop.run)
        yield query
        query.close()


def test_what_the_target_has_forgotten_is_not_written_again(query: Query) -> None:
    """It may have been committed."""
    parts = [query.write(0, 0), query.write(1, 1)]
    query.decide(*parts)
    query.forget(parts[1])
    assert query.write(0, 0).committed
    with pytest.raises(
        CopyError, match=r"transaction sink\.query-1 was due for its commit, but cluster west has forgotten it"
    ):
        query.write(1, 1)
    # Nor by a run with fewer tasks, whose driver looks after the rest.
    with pytest.raises(CopyError, match="has forgotten it"):
        query.commit(query.write(0, 0))


def test_the_next_decision_about_a_micro_batch_takes_the_place_of_the_last(query: Query) -> None:
    """Also where its rows went to other partitions."""
    before = [query.write(0, 0), query.write(1, 1)]
    query.decide(*before)
    query.time_out(before[1])
    after = [query.write(0, 0), query.write(1, 2)]
    assert [part.holder == NOBODY for part in after] == [True, False]
    query.commit(*after)
    assert query.cluster.offsets.committed[GROUP].keys() == {(TOPIC, 0)}
    last = query.last
    assert last is not None
    assert last.holders == tuple(part.holder for part in after)
    assert [query.write(part, part).committed for part in range(2)] == [True, True]


def test_fewer_tasks_do_not_write_what_others_had_though_all_of_theirs_was_aborted(query: Query) -> None:
    """The rows of the third task count by then, and are among theirs."""
    before = [query.write(part, part) for part in range(3)]
    query.decide(*before)
    query.time_out(before[0])
    query.time_out(before[1])
    fewer = [query.write(part, part) for part in range(2)]
    assert not any(part.committed for part in fewer)
    with pytest.raises(CopyError, match="by 3 tasks, of which the target has dropped the rows of tasks 0, 1"):
        query.commit(*fewer)
    assert not any(query.is_open(part) for part in (*fewer, before[2]))
    last = query.last
    assert last is not None
    assert last.holders == tuple(part.holder for part in before)


def test_an_abort_leaves_what_was_decided_on_and_ends_the_rest(query: Query) -> None:
    before = [query.write(0, 0), query.write(1, 1)]
    query.decide(*before)
    query.abort(*before)
    assert all(query.is_open(part) for part in before)
    query.time_out(before[1])
    again = query.write(1, 1)
    assert query.is_open(again)
    # The other task of this run failed, so there is no second decision.
    query.abort(again)
    assert not query.is_open(again)
    assert query.is_open(before[0])


@pytest.mark.parametrize("tasks", [2, 1])
def test_a_micro_batch_is_not_written_again_though_a_later_one_has_begun(query: Query, tasks: int) -> None:
    """Its transactional ids have another epoch by then, as they have after a timeout."""
    query.commit(query.write(0, 0), query.write(1, 1))
    query.write(tasks - 1, 0, number=8)
    with pytest.raises(CopyError, match=r"micro-batch 7 of query query.*has it, and a part of the rows after it"):
        query.commit(*(query.write(part, part) for part in range(tasks)))


def test_it_is_noted_as_well_by_the_run_that_commits_what_is_left(query: Query) -> None:
    query.decide(query.write(0, 0), query.write(1, 1))
    query.commit(query.write(0, 0))
    query.write(1, 1, number=8)
    with pytest.raises(CopyError, match="part of the rows after it"):
        query.write(1, 1)


def test_what_the_target_has_forgotten_and_was_committed_is_not_asked_for(query: Query) -> None:
    part = query.write(0, 0)
    query.commit(part)
    query.forget(part)
    assert query.write(0, 0).committed


def test_what_is_committed_is_known_when_the_decision_is_forgotten(query: Query) -> None:
    """The query ended between its commit and Spark's log, and begins again weeks later."""
    query.commit(query.write(0, 0), query.write(1, 1))
    query.cluster.offsets.expire()
    assert query.last is None
    again = [query.write(0, 0), query.write(1, 1)]
    assert all(part.committed for part in again)
    query.commit(*again)
    assert not query.write(0, 0, number=8).committed
    with pytest.raises(CopyError, match=r"micro-batch 6 of query query.*has micro-batch 7: the checkpoint is older"):
        query.write(0, 0, number=6)


def test_what_was_decided_on_and_is_forgotten_is_not_written_again(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query ended within its commit: part of it may be committed."""
    parts = [query.write(0, 0), query.write(1, 1)]

    async def ended(*_: object) -> None:
        raise ClusterError("the driver ends here")

    with monkeypatch.context() as patch:
        patch.setattr(BatchTransactions, "_end", ended)
        with pytest.raises(ClusterError, match="ends here"):
            query.commit(*parts)
    query.cluster.offsets.expire()
    with pytest.raises(
        CopyError, match=r"micro-batch 7 of query query was to be committed, but cluster west has forgotten"
    ):
        query.write(0, 0)
    # As the error says.
    for group in (GROUP, f"{GROUP}.committed"):
        del query.cluster.offsets.committed[group]
    anew = query.write(0, 0)
    query.commit(anew)
    assert query.write(0, 0).committed


@pytest.mark.parametrize("by", ["task", "driver"])
def test_what_is_committed_of_a_decision_that_nobody_noted_is_not_written_again(query: Query, by: str) -> None:
    """Its driver ended right after the decision, the next one within the commit, and a third begins weeks later."""
    before = [query.write(0, 0), query.write(1, 1), query.write(2, 2)]
    query.decide(*before)
    if by == "task":
        assert query.write(0, 0).committed
    else:
        query.time_out(before[0])
        with pytest.raises(CopyError, match="dropped the rows of tasks 0"):
            query.commit(query.write(0, 0))
        assert not query.is_open(before[1])
    query.cluster.offsets.expire()
    with pytest.raises(CopyError, match=r"micro-batch 7 of query query was to be committed, but cluster west"):
        query.write(0, 0)


def test_a_decision_that_nobody_noted_or_acted_on_is_forgotten_with_what_it_was_about(query: Query) -> None:
    before = query.write(0, 0)
    query.decide(before)
    query.time_out(before)
    query.cluster.offsets.expire()
    again = query.write(0, 0)
    assert not again.committed
    query.commit(again)
    assert query.write(0, 0).committed


def test_a_decision_that_is_forgotten_in_part_is_none(query: Query) -> None:
    query.commit(query.write(0, 0))
    offsets = query.cluster.offsets.committed[GROUP]
    offsets[TOPIC, 0] = (7, offsets[TOPIC, 0][1].replace("1:1:", "1:2:"))
    assert query.last is None


def test_what_arrives_after_an_abort_begins_no_transaction(query: Query) -> None:
    """Before Kafka 3.6 brokers asked no coordinator whether there is one; nobody would end it."""
    part = query.write(0, 0)
    assert part.somewhere is not None
    log = query.cluster.log(TOPIC)

    def arrive(value: bytes, sequence: int) -> int:
        batch = encode_batch([(0, record_body(None, value))])
        stamp(batch, *part.holder, sequence, transactional=True)
        return log.append(bytes(batch))[0]

    assert arrive(b"in time", 0) == 0
    query.drop(part, part.somewhere)
    assert arrive(b"late", 1) == Code.INVALID_PRODUCER_EPOCH
    assert (log.open, log.values(committed=True)) == ({}, [])
    # The next attempt of the task writes.
    again = query.write(0, 0)
    query.commit(again)
    assert query.write(0, 0).committed


def test_a_later_attempt_that_began_after_an_abort_is_left_alone(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may arrive late is shut out by another abort, which brokers grant to an old epoch while a transaction is
    open."""
    part, later = query.write(0, 0), []
    assert part.somewhere is not None
    end = TransactionCoordinator.end

    async def overtaken(coordinator: TransactionCoordinator, holder: ProducerEpoch, *, commit: bool) -> bool:
        ended = await end(coordinator, holder, commit=commit)
        newer = await coordinator.init()
        assert not await coordinator.add(newer, [TopicPartition(TOPIC, 0)])
        later.append(replace(part, holder=newer))
        return ended

    with monkeypatch.context() as patch:
        patch.setattr(TransactionCoordinator, "end", overtaken)
        query.drop(part, part.somewhere)
    assert query.is_open(later[0])


def test_a_dropped_part_leaves_what_a_later_attempt_has_begun(query: Query) -> None:
    part = query.write(0, 0)
    assert part.somewhere is not None
    later = query.write(0, 0)
    query.drop(part, part.somewhere)
    assert query.is_open(later)
    query.commit(later)
