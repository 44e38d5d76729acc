"""A Spark task of a verification: compares some partitions in turn, and yields a row of each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from twinlog.errors import TwinlogError
from twinlog.kafka.net.loop import Loop
from twinlog.ops.verify.comparison import PartitionComparison
from twinlog.ops.verify.log_reader import ClusterLogs, PartitionLogs
from twinlog.ops.verify.model import PartitionToVerify, Verdict, VerifyRules

MOST_PAIRS = 2
"""Flows that a process keeps connections for."""

_pairs: dict[VerifyRules, ClusterPair] = {}
"""Spark reuses its Python workers for successive tasks."""


class ClusterPair:
    """Connections to both clusters of a flow, for a single thread."""

    def __init__(self, rules: VerifyRules, loop: Loop) -> None:
        self.rules = rules
        self.clock = loop.clock
        self._loop = loop
        self._source = ClusterLogs(loop, rules.source_alias, rules.source)
        self._target = ClusterLogs(loop, rules.target_alias, rules.target)

    def compare(self, part: PartitionToVerify, progress: Callable[[int], None] = lambda _: None) -> Verdict:
        """Return the row about a partition; the row of an unreadable partition has a problem."""
        logs = self.logs_of(part)
        work = PartitionComparison(part, self.rules, logs, progress)
        logs.lost = work.lost
        began = self.clock.wall()
        try:
            verdict = work.run()
        except TwinlogError as error:
            verdict = work.so_far
            verdict.problem = str(error)
            verdict.equal = False if verdict.differences else None
        verdict.span = began, self.clock.wall()
        return verdict

    def logs_of(self, part: PartitionToVerify) -> PartitionLogs:
        """The logs of a partition on both clusters."""
        return PartitionLogs(self._source, self._target, part, self.rules)

    def close(self) -> None:
        self._source.close()
        self._target.close()
        self._loop.close()


def verify_partitions(
    parts: Iterable[PartitionToVerify], rules: VerifyRules, progress: Callable[[int], None] = lambda _: None
) -> Iterator[Verdict]:
    """Compare partitions in turn; `progress(offsets)` is called during the comparison."""
    pair = connected_pair(rules)
    for part in parts:
        yield pair.compare(part, progress)


def connected_pair(rules: VerifyRules) -> ClusterPair:
    """The connections of this process to the clusters of a flow; they stay for its next tasks."""
    # kafka-python logs every lost connection as an error; a lasting error is in the row.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    pair = _pairs.pop(rules, None) or ClusterPair(rules, Loop())
    _pairs[rules] = pair
    while len(_pairs) > MOST_PAIRS:
        _pairs.pop(next(iter(_pairs))).close()
    return pair
