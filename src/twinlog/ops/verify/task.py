"""A Spark task of a verification: compares some partitions in turn, and yields a row of each."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator

from twinlog.errors import ClusterError, TwinlogError
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol.offsets import EARLIEST
from twinlog.kafka.retry import TASK_CONNECT_S
from twinlog.ops.verify.comparison import PartitionComparison
from twinlog.ops.verify.log_reader import ClusterLogs, LogReader
from twinlog.ops.verify.model import PartitionToVerify, Side, Verdict, VerifyRules

MOST_PAIRS = 2
"""Flows that a process keeps connections for."""

_pairs: dict[VerifyRules, ClusterPair] = {}
"""Spark reuses its Python workers for successive tasks."""


class ClusterPair:
    """Connections to both clusters of a flow, for a single thread."""

    def __init__(self, rules: VerifyRules, loop: Loop) -> None:
        self.rules = rules
        self._loop = loop
        self._source = ClusterLogs(loop, rules.source_alias, rules.source)
        self._target = ClusterLogs(loop, rules.target_alias, rules.target)

    def compare(self, part: PartitionToVerify, progress: Callable[[int], None] = lambda _: None) -> Verdict:
        """Return the row about a partition; the row of an unreadable partition has a problem."""
        logs = PartitionLogs(self, part)
        work = PartitionComparison(part, self.rules, logs, progress)
        logs.lost = work.lost
        began = self._loop.clock.wall()
        try:
            verdict = work.run()
        except TwinlogError as error:
            verdict = work.so_far
            verdict.problem = str(error)
            verdict.equal = False if verdict.differences else None
        verdict.span = began, self._loop.clock.wall()
        return verdict

    def logs(self, side: Side) -> ClusterLogs:
        return self._source if side == "source" else self._target

    def close(self) -> None:
        self._source.close()
        self._target.close()
        self._loop.close()


class PartitionLogs:
    """Both logs of a partition; `lost(side, start, end)` is called for offsets that retention deletes during the
    comparison."""

    def __init__(self, pair: ClusterPair, part: PartitionToVerify) -> None:
        self._pair = pair
        self._part = part
        self.lost: Callable[[Side, int, int], None] = lambda side, start, end: None

    def open(self, side: Side, start: int, end: int) -> LogReader:
        part, rules = self._part, self._pair.rules
        topic_id: uuid.UUID | None = part.source_id if side == "source" else part.target_id
        return LogReader(
            self._pair.logs(side),
            part.source if side == "source" else part.remote,
            start,
            end,
            # An aborted transaction lacks copies.
            committed=side == "target" or rules.source.isolation_level == "read_committed",
            topic_id=topic_id,
            patience_s=rules.patience_s,
            lost=lambda first, past: self.lost(side, first, past),
        )

    def at_timestamp(self, side: Side, timestamp: int) -> int:
        logs = self._pair.logs(side)
        part = self._part.source if side == "source" else self._part.remote

        async def ask() -> int:
            client = logs.client
            if not client.connected:
                await client.connect(TASK_CONNECT_S)
            await client.refresh([part.topic])
            at = max(timestamp, 0) if timestamp != EARLIEST else EARLIEST
            return (await client.list_offsets([part], at)).get(part, -1)

        try:
            return logs.loop.run(ask)
        except ClusterError:
            # Only a guess is lost with it.
            return -1


def verify_partitions(
    parts: Iterable[PartitionToVerify], rules: VerifyRules, progress: Callable[[int], None] = lambda _: None
) -> Iterator[Verdict]:
    """Compare partitions in turn; `progress(offsets)` is called during the comparison."""
    # kafka-python logs every lost connection as an error; a lasting error is in the row.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    pair = _pairs.pop(rules, None) or ClusterPair(rules, Loop())
    _pairs[rules] = pair
    while len(_pairs) > MOST_PAIRS:
        _pairs.pop(next(iter(_pairs))).close()
    for part in parts:
        yield pair.compare(part, progress)
